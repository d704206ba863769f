#include "supervisor.h"

int main(int count, char **argv) {
  if (count >= 3 && strcmp(argv[1], "init") == 0) return run_init(argv + 2);
  if (count == 2 && strcmp(argv[1], "attach") == 0) return run_attach();
  if (count == 2 && strcmp(argv[1], "version") == 0) {
    puts(PROTOCOL_VERSION);
    return 0;
  }
  dprintf(2, "usage: supervisor init PROGRAM [ARGUMENT...] | attach | version\n");
  return 64;
}
