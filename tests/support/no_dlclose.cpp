/// @file
/// Linked into MPI tests under AddressSanitizer: keeps libraries loaded, so that the leak checker
/// can still name the library of a leak, and the suppressions in lsan.supp match it.

extern "C" int dlclose(void*) { return 0; }
