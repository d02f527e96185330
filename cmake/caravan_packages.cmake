# Every outside package, in one place. packaging/debian-packages.txt lists the Debian packages that bring them.
find_package(Threads REQUIRED)
find_package(CAF 0.17.6 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(leveldb REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(MEMCACHED REQUIRED IMPORTED_TARGET libmemcached)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)  # its own CMake files are broken
