#include "supervisor.h"

struct sockaddr_un abstract_address(const char *name, socklen_t *length) {
  struct sockaddr_un found = {.sun_family = AF_UNIX};
  size_t size = strlen(name);
  memcpy(found.sun_path + 1, name, size);
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
  return found;
}

int listen_at(const struct sockaddr_un *at, socklen_t length) {
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  if (bind(listener, (const struct sockaddr *)at, length) == 0 && listen(listener, 64) == 0) return listener;
  close(listener);
  return -1;
}

bool peer_of(int connection, struct ucred *peer) {
  socklen_t length = sizeof *peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
}

bool is_own_user(int connection) {
  struct ucred peer;
  return peer_of(connection, &peer) && peer.uid == geteuid();
}
