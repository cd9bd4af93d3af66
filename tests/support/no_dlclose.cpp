/// @file
/// Linked into MPI tests under AddressSanitizer: libraries stay loaded, so that the leak checker
/// can still name the library of a leak, and the suppressions in lsan.supp find it.

extern "C" int dlclose(void*) { return 0; }
