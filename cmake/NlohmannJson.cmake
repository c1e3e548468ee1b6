# SPDX-License-Identifier: GPL-2.0-only
#
# Declares `nlohmann_json::nlohmann_json`, from the system or from the PyPI package nlohmann-json.
find_package(nlohmann_json QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u, pathlib; s = u.find_spec('nlohmann_json'); print(pathlib.Path(s.submodule_search_locations[0]) if s else '')"
    OUTPUT_VARIABLE json_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp
    HINTS "${json_package}/include" "${json_package}")
  if(NOT NLOHMANN_JSON_INCLUDE)
    message(FATAL_ERROR "nlohmann/json.hpp is neither the system's (nlohmann-json3-dev, nlohmann-json-devel) nor of "
                        "${Python_EXECUTABLE}: `pip install nlohmann-json`, or name one that has it with "
                        "-DPython_EXECUTABLE=...")
  endif()
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  set_target_properties(nlohmann_json::nlohmann_json PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NLOHMANN_JSON_INCLUDE}")
endif()
