# SPDX-License-Identifier: GPL-2.0-only
# Writes the commit that is built into bbrgym/built_from.json, for wheels; bbrgym.runs.provenance reads it. A checkout tells it by
# git, an sdist of `make wheels` by a file of the same name.
set(bbrgym_commit "unknown")
set(bbrgym_is_dirty "null")
find_program(BBRGYM_GIT git)
if(BBRGYM_GIT AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.git")
  set(git ${BBRGYM_GIT} --no-optional-locks -c safe.directory=* -C "${CMAKE_CURRENT_SOURCE_DIR}")
  execute_process(COMMAND ${git} rev-parse HEAD OUTPUT_VARIABLE head RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes
                  RESULT_VARIABLE has_no_status ERROR_QUIET)
  if(NOT failed)
    set(bbrgym_commit "${head}")
  endif()
  if(NOT failed AND NOT has_no_status)
    if(changes STREQUAL "")
      set(bbrgym_is_dirty "false")
    else()
      set(bbrgym_is_dirty "true")
    endif()
  endif()
endif()
set(bbrgym_built_from "${CMAKE_CURRENT_SOURCE_DIR}/built_from.json") # of an sdist
if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.git" OR NOT EXISTS "${bbrgym_built_from}")
  set(bbrgym_built_from "${CMAKE_CURRENT_BINARY_DIR}/built_from.json")
  file(WRITE "${bbrgym_built_from}"
       "{\"commit\": \"${bbrgym_commit}\", \"is_dirty\": ${bbrgym_is_dirty}}\n")
endif()
install(FILES "${bbrgym_built_from}" DESTINATION bbrgym)
