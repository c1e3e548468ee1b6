# SPDX-License-Identifier: GPL-2.0-only
#
# Installs plotly.min.js, which the pages of reports embed: that of the PyPI package plotly, whose Python part, 60 MB, is
# never used here, cut down from 4.8 MB to the traces that pages draw (lines and points are always there).
set(PLOTLY_REQUIREMENT "plotly==7.1.0")
set(PLOTLY_TRACES bar heatmap)
set(plotly_dir "${CMAKE_BINARY_DIR}/plotly-package")
set(plotly_js "${plotly_dir}/plotly/package_data/plotly.min.js")
if(NOT EXISTS "${plotly_js}")
  message(STATUS "Fetching ${PLOTLY_REQUIREMENT}")
  execute_process(
    COMMAND ${Python_EXECUTABLE} -m pip download --quiet --no-deps --dest "${plotly_dir}" --only-binary :all:
            ${PLOTLY_REQUIREMENT}
    RESULT_VARIABLE failed ERROR_VARIABLE reason)
  file(GLOB wheel "${plotly_dir}/plotly-*.whl")
  if(failed OR NOT wheel)
    message(FATAL_ERROR "Cannot fetch ${PLOTLY_REQUIREMENT} with `${Python_EXECUTABLE} -m pip download`: ${reason}")
  endif()
  file(ARCHIVE_EXTRACT INPUT "${wheel}" DESTINATION "${plotly_dir}" PATTERNS "plotly/package_data/plotly.min.js")
  file(REMOVE "${wheel}")
endif()
set(partial_plotly "${CMAKE_CURRENT_LIST_DIR}/partial_plotly.py")
set(partial_js "${CMAKE_BINARY_DIR}/plotly.min.js")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${partial_plotly}")
file(SHA256 "${partial_plotly}" recipe)
string(APPEND recipe " ${PLOTLY_REQUIREMENT} ${PLOTLY_TRACES}")
if(NOT EXISTS "${partial_js}" OR NOT recipe STREQUAL "${PLOTLY_RECIPE}")
  message(STATUS "Cutting plotly.js down to its traces ${PLOTLY_TRACES}")
  execute_process(
    COMMAND ${Python_EXECUTABLE} "${partial_plotly}" "${plotly_js}" "${partial_js}" ${PLOTLY_TRACES}
    RESULT_VARIABLE failed ERROR_VARIABLE reason)
  if(failed)
    message(FATAL_ERROR "Cannot cut down ${plotly_js}: ${reason}")
  endif()
  set(PLOTLY_RECIPE "${recipe}" CACHE INTERNAL "What build's plotly.min.js was made by")
endif()
install(FILES "${partial_js}" DESTINATION bbrgym/report/templates)
