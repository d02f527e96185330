# caravan_embed_files(TARGET FOLDER): puts what a browser needs of FOLDER into TARGET (nodes/http/embedded_file.hpp).
function(caravan_embed_files target folder)
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS
       ${folder}/*.html ${folder}/*.js ${folder}/*.css ${folder}/*.svg ${folder}/openapi.json ${folder}/vendor/LICENSE.*)
  list(SORT files)
  set(whole ${files})
  list(TRANSFORM whole PREPEND ${folder}/)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/embedded_files.cpp)
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DMADE=${made} -DFOLDER=${folder} "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${whole} ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
  target_sources(${target} PRIVATE ${made})
endfunction()
