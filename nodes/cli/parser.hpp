#pragma once

namespace caravan::cli {

/// Parses, runs the verb, prints what stopped it. The program's exit code.
int run(int argc, char** argv);

}  // namespace caravan::cli
