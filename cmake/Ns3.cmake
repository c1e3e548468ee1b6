# SPDX-License-Identifier: GPL-2.0-only
#
# Declares `ns3_libs` (headers, libraries, definitions) for the ns-3 named by BBRGYM_NS3_ROOT, which may be
#   - the `ns3/` folder of the PyPI package (include/ and lib64/),
#   - the prefix of an ns-3 installation (include/ and lib/ or lib64/), or
#   - the build/ folder of an ns-3 source tree (include/ and lib/).
# Unset, it is the installed Python package or, failing that, one unpacked into the build tree.
# The package's own CMake files name folders of the machine it was built on, so they are not used.
set(BBRGYM_NS3_ROOT "" CACHE PATH "ns-3 to build against (wheel folder, install prefix or build folder)")
set(NS3_REQUIREMENT "ns3==3.44.post0")

# The folder of the installed `ns3` Python package, found without importing it (that would start cppyy).
function(bbrgym_find_ns3_package result)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; s = u.find_spec('ns3'); print(next(iter(s.submodule_search_locations or ['']), '') if s else '')"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT EXISTS "${folder}/include/ns3/core-module.h")
    set(folder "")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# Unpacks the PyPI package alone: its one requirement, cppyy, is large and never used here. Always the same
# wheel, whatever the Python: its libraries do not depend on Python, and none exists yet for some versions.
function(bbrgym_download_ns3 result)
  set(folder "${CMAKE_BINARY_DIR}/ns3-package")
  if(NOT EXISTS "${folder}/ns3/include/ns3/core-module.h")
    message(STATUS "Fetching ${NS3_REQUIREMENT}")
    execute_process(
      COMMAND ${Python_EXECUTABLE} -m pip download --quiet --no-deps --dest "${folder}"
              --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 ${NS3_REQUIREMENT}
      RESULT_VARIABLE failed ERROR_VARIABLE reason)
    file(GLOB wheel "${folder}/ns3-*.whl")
    if(failed OR NOT wheel)
      message(FATAL_ERROR "Cannot fetch ${NS3_REQUIREMENT} with `${Python_EXECUTABLE} -m pip download`: ${reason}\n"
                          "Name an ns-3 with -DBBRGYM_NS3_ROOT=<folder with include/ and lib/ or lib64/>.")
    endif()
    file(ARCHIVE_EXTRACT INPUT "${wheel}" DESTINATION "${folder}")
    file(REMOVE "${wheel}")
  endif()
  set(${result} "${folder}/ns3" PARENT_SCOPE)
endfunction()

set(ns3_root "${BBRGYM_NS3_ROOT}")
if(NOT ns3_root)
  bbrgym_find_ns3_package(ns3_root)
endif()
if(NOT ns3_root)
  bbrgym_download_ns3(ns3_root)
endif()

foreach(folder lib64 lib)
  file(GLOB ns3_core "${ns3_root}/${folder}/libns3*-core*.so")
  if(ns3_core)
    set(ns3_libdir "${ns3_root}/${folder}")
    break()
  endif()
endforeach()
list(LENGTH ns3_core ns3_count)
if(NOT ns3_count EQUAL 1 OR NOT EXISTS "${ns3_root}/include/ns3/core-module.h")
  message(FATAL_ERROR "No single ns-3 at '${ns3_root}': expected include/ns3/core-module.h and one "
                      "lib/libns3*-core*.so or lib64/libns3*-core*.so, found '${ns3_core}'. Set -DBBRGYM_NS3_ROOT.")
endif()
message(STATUS "ns-3: ${ns3_core}")

# libns3.44-core-optimized.so: whatever stands before and after the module's name is the same for all.
get_filename_component(ns3_core_name "${ns3_core}" NAME)
string(REGEX MATCH "^(libns3.*-)core(.*)$" ns3_match "${ns3_core_name}")
set(ns3_prefix "${CMAKE_MATCH_1}")
set(ns3_suffix "${CMAKE_MATCH_2}")

add_library(ns3_libs INTERFACE)
target_include_directories(ns3_libs SYSTEM INTERFACE "${ns3_root}/include")
foreach(module internet traffic-control bridge network stats core)
  target_link_libraries(ns3_libs INTERFACE "${ns3_libdir}/${ns3_prefix}${module}${ns3_suffix}")
endforeach()

# Inline code of the headers must agree with the library on logs and assertions. The exported targets say
# what it was compiled with; a build folder has none, there the profile in the file's name says it.
set(ns3_exported "${ns3_libdir}/cmake/ns3/ns3Targets.cmake")
foreach(definition NS3_LOG_ENABLE NS3_ASSERT_ENABLE)
  if(EXISTS "${ns3_exported}")
    file(STRINGS "${ns3_exported}" ns3_has REGEX "INTERFACE_COMPILE_DEFINITIONS .*${definition}" LIMIT_COUNT 1)
  else()
    string(REGEX MATCH "-(debug|default|relwithdebinfo)" ns3_has "${ns3_suffix}")
  endif()
  if(ns3_has)
    target_compile_definitions(ns3_libs INTERFACE ${definition})
  endif()
endforeach()

# Installs the module `target` and the libraries of last hops, and into `destination` what they need of ns-3, without the
# symbols that only a debugger reads, and ns-3's licence and authors, which its package and its tree have.
function(bbrgym_install_ns3_libraries destination target)
  install(TARGETS ${target} RUNTIME_DEPENDENCY_SET ns3_runtime LIBRARY DESTINATION bbrgym)
  if(ARGN)
    install(TARGETS ${ARGN} RUNTIME_DEPENDENCY_SET ns3_runtime LIBRARY DESTINATION ${destination})
  endif()
  string(REGEX REPLACE "([.+*?()^$|[])" "\\\\\\1" libdir_regex "${ns3_libdir}")
  install(RUNTIME_DEPENDENCY_SET ns3_runtime
    DESTINATION ${destination}
    DIRECTORIES "${ns3_libdir}"
    POST_INCLUDE_REGEXES "^${libdir_regex}/"
    POST_EXCLUDE_REGEXES ".*")
  file(GLOB licences "${ns3_root}/../ns3-*.dist-info/licenses/*" "${ns3_root}/../LICENSE" "${ns3_root}/../AUTHORS")
  install(FILES ${licences} DESTINATION ${destination})
  if(CMAKE_STRIP)
    install(CODE "
      file(GLOB libraries \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${destination}/*.so*\")
      execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \${libraries} COMMAND_ERROR_IS_FATAL ANY)")
  endif()
endfunction()
