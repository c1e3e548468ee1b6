# SPDX-License-Identifier: GPL-2.0-only
#
# Installs plotly.min.js, which the pages of reports embed. It comes out of the PyPI package plotly, whose Python part,
# 60 MB, is never used here.
set(PLOTLY_REQUIREMENT "plotly==7.1.0")
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
configure_file("${plotly_js}" "${CMAKE_BINARY_DIR}/plotly.min.js" COPYONLY)
install(FILES "${CMAKE_BINARY_DIR}/plotly.min.js" DESTINATION bbrgym/report/templates)
