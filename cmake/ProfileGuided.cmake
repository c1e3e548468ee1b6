# SPDX-License-Identifier: GPL-2.0-only
# Compiles the libraries of the twin beforehand, with counters, and has them run: what was counted tells GCC which ways are
# taken when it compiles the twin itself. GCC looks for the counts beside an object file, under its name, and for those of a
# function by its number within the file; else by a name that for static ones has the object file's in it.
set(by_number --param=profile-func-internal-id=1)
set(libraries bbrgym_world bbrgym_tcp bbrgym_twin)
set(object Unity/unity_0_cxx.cxx.gcda)
add_executable(twin_training benchmarks/twin_instructions.cc)
target_link_options(twin_training PRIVATE -fprofile-generate)
set_target_properties(twin_training PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
set(copies "")
foreach(library ${libraries})
  get_target_property(folder ${library} SOURCE_DIR)
  get_target_property(sources ${library} SOURCES)
  get_target_property(built ${library} BINARY_DIR)
  list(FILTER sources EXCLUDE REGEX scenario_json)
  list(TRANSFORM sources PREPEND ${folder}/)
  add_library(${library}_training OBJECT ${sources})
  set_target_properties(${library} ${library}_training PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0
                        INTERPROCEDURAL_OPTIMIZATION ON)
  target_include_directories(${library}_training PUBLIC ${folder})
  target_link_libraries(${library}_training PUBLIC bbrgym_cc)
  target_compile_options(${library}_training PRIVATE -fprofile-generate ${by_number})
  target_link_libraries(twin_training PRIVATE ${library}_training)
  list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${library}_training.dir/${object}
       ${built}/CMakeFiles/${library}.dir/${object})

  # What did not run is compiled as without counts.
  target_compile_options(${library} PRIVATE -fprofile-use -fprofile-partial-training ${by_number}
                         -Wno-missing-profile)
  add_dependencies(${library} twin_profile)
endforeach()
target_link_libraries(bbrgym_tcp_training PUBLIC bbrgym_world_training)
target_link_libraries(bbrgym_twin_training PUBLIC bbrgym_tcp_training)
target_link_libraries(twin_training PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

set(profile ${CMAKE_CURRENT_BINARY_DIR}/twin_profile.stamp)
add_custom_command(
  OUTPUT ${profile}
  COMMAND twin_training bbr 100 2 10 0 COMMAND twin_training cubic 100 2 10 0.01 COMMAND twin_training bbq 10 2 20 0
  COMMAND twin_training bbr3 50 4 5 0.001 COMMAND twin_training bbr 100 100 2 0 ${copies}
  COMMAND ${CMAKE_COMMAND} -E touch ${profile}
  DEPENDS twin_training VERBATIM)
add_custom_target(twin_profile DEPENDS ${profile})
