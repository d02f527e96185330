# cmake -D BUILD=... -D CONSUMER=... -D WORK=... -D LIBDIR=... -P install.cmake
# Installs into an empty prefix, builds a consumer against that alone, and runs it and the installed program.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${code}\n${text}")
  endif()
  set(said "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/run)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
foreach(file bin/caravan include/caravan/node.hpp lib/systemd/system/caravan.service share/doc/caravan/LICENSE
             share/doc/caravan/configuration.md)
  if(NOT EXISTS ${WORK}/prefix/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# No -O: the consumer is built once and runs once.
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G Ninja -D CMAKE_PREFIX_PATH=${WORK}/prefix
    -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -E chdir ${WORK}/run ${WORK}/build/consumer)
if(NOT said MATCHES "sent 2 to ann@example.org" OR NOT said MATCHES "done")
  message(FATAL_ERROR "the consumer says: ${said}")
endif()
run(${WORK}/prefix/bin/caravan version)
message("consumer: ${said}")
file(REMOVE_RECURSE ${WORK})
