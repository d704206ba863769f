#include "supervisor.h"

int main(int count, char **argv) {
  if (count >= 3 && strcmp(argv[1], "init") == 0) return run_init(argv + 2);
  if (count == 2 && strcmp(argv[1], "attach") == 0) return run_attach();
  if (count == 3 && strcmp(argv[1], "attach") == 0) {
    keeper_path = argv[2];
    return run_attach();
  }
  if (count == 4 && strcmp(argv[1], "keep") == 0) return run_keeper_at(argv[2], atoi(argv[3]));
  if (count == 2 && strcmp(argv[1], "version") == 0) {
    puts(PROTOCOL_VERSION);
    return 0;
  }
  dprintf(2, "usage: supervisor init PROGRAM [ARGUMENT...] | attach [SOCKET] | keep SOCKET PID | version\n");
  return 64;
}
