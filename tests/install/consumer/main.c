/* consumer VERSION: exits 0 when the header that it was compiled with is that version and the library answers. */
#include <gimbal/gimbal.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", GIMBAL_VERSION_MAJOR, GIMBAL_VERSION_MINOR, GIMBAL_VERSION_PATCH);
  if (argc != 2 || strcmp(version, argv[1]) != 0) {
    fprintf(stderr, "the header is version %s, expected %s\n", version, argc == 2 ? argv[1] : "an argument");
    return 1;
  }
  return strcmp(gimbal_status_name(GIMBAL_OK), "GIMBAL_OK") == 0 ? 0 : 1;
}
