# SPDX-License-Identifier: GPL-2.0-only
#
# Makes messages.binpb, the description of ns3-gym's messages that the package reads: by the protoc of the PyPI package
# grpcio-tools, which brings google/protobuf/*.proto along.
set(messages_dir "${CMAKE_CURRENT_SOURCE_DIR}/src/bbrgym/ns3gym")
set(messages "${CMAKE_CURRENT_BINARY_DIR}/messages.binpb")
add_custom_command(OUTPUT "${messages}"
  COMMAND "${Python_EXECUTABLE}" -m grpc_tools.protoc "--proto_path=${messages_dir}"
          --include_imports "--descriptor_set_out=${messages}" messages.proto
  DEPENDS "${messages_dir}/messages.proto"
  COMMENT "Describing the messages of ns3-gym" VERBATIM)
add_custom_target(messages ALL DEPENDS "${messages}")
install(FILES "${messages}" DESTINATION bbrgym/ns3gym)
