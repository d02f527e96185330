#pragma once

// Included by one source of each test program that uses LevelDB. Debian's library is not built for ThreadSanitizer: its
// atomics are invisible, and each memcpy inside it would look like a race. Our own code stays under watch.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:libleveldb.so\n"; }
#endif
