#include "nodes/cli/parser.hpp"

int main(int argc, char** argv) { return caravan::cli::run(argc, argv); }
