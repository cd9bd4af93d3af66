/* A small C program, by pkg-config: -DHEADER=<hcomp/hcomp.h>, or <hcomp/group.h>. */
#include HEADER
#include <stdio.h>

int main(void) {
  int major, minor, patch;
  if (hcomp_version(&major, &minor, &patch) != HCOMP_OK) return 1;
  printf("hcomp %d.%d.%d for %s\n", major, minor, patch, hcomp_built_for());
  return 0;
}
