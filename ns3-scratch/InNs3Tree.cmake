# SPDX-License-Identifier: GPL-2.0-only
#
# Inside an ns-3 tree (scratch/bbrgym is a symlink to this folder): ns-3's own way to make programs, with the sources
# of the folders beside this one.
file(REAL_PATH ${CMAKE_CURRENT_SOURCE_DIR} bbrgym_root)
get_filename_component(bbrgym_root ${bbrgym_root} DIRECTORY)
find_package(Python REQUIRED COMPONENTS Interpreter)
include(${bbrgym_root}/cmake/NlohmannJson.cmake)

file(GLOB bbrgym_shared CONFIGURE_DEPENDS ${bbrgym_root}/tcp/*.cpp ${bbrgym_root}/world/*.cpp)
add_library(scratch_bbrgym_common OBJECT EXCLUDE_FROM_ALL ${BBRGYM_NS3_MODEL} ${bbrgym_shared})

# What all of it is compiled with: the tree's own C++ may be older, and its -march=native may fuse a product and a sum,
# which would give numbers other than everywhere else.
function(bbrgym_compile_in_tree target)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_include_directories(${target} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/model ${bbrgym_root}/tcp ${bbrgym_root}/world)
  target_include_directories(${target} SYSTEM PRIVATE ${bbrgym_root}/cc)
  target_link_libraries(${target} nlohmann_json::nlohmann_json)
endfunction()
bbrgym_compile_in_tree(scratch_bbrgym_common)
if(TARGET copy_all_headers) # build/include/ns3 is filled before anything that includes it
  add_dependencies(scratch_bbrgym_common copy_all_headers)
endif()

# A program of one source file and what all share.
function(bbrgym_program source)
  get_filename_component(name ${source} NAME_WE)
  build_exec(
    EXECNAME ${name}
    EXECNAME_PREFIX scratch_bbrgym_
    SOURCE_FILES ${CMAKE_CURRENT_SOURCE_DIR}/${source} $<TARGET_OBJECTS:scratch_bbrgym_common>
    LIBRARIES_TO_LINK "${ns3-libs}" "${ns3-contrib-libs}" ${CMAKE_DL_LIBS}
    EXECUTABLE_DIRECTORY_PATH ${CMAKE_OUTPUT_DIRECTORY}/scratch/bbrgym/
    IGNORE_PCH)
  bbrgym_compile_in_tree(scratch_bbrgym_${name})
endfunction()

bbrgym_program(bbrgym-scenario.cc)
if("${ns3-libs}" MATCHES "point-to-point")
  bbrgym_program(examples/two-bottlenecks.cc)
else()
  message(STATUS "two-bottlenecks is left out: it needs ns-3's module point-to-point")
endif()
