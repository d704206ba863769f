#include "keeper.h"

/* The way to the keeper: in a container a name that the first process has listened on from the beginning, elsewhere a file. */

static const char socket_name[] = "mooring-keeper";
const char *keeper_path;

static struct sockaddr_un address(socklen_t *length) {
  if (keeper_path == NULL) return abstract_address(socket_name, length);
  struct sockaddr_un found = {.sun_family = AF_UNIX};
  strncpy(found.sun_path, keeper_path, sizeof found.sun_path - 1);
  *length = sizeof found;
  return found;
}

int keeper_listen(void) {
  socklen_t length;
  struct sockaddr_un at = address(&length);
  return listen_at(&at, length);
}

/* Whether the keeper is the one that it should be: nobody but the first process of a container can have listened. */
static bool is_keeper(int connection) {
  struct ucred peer;
  if (keeper_path != NULL) return is_own_user(connection);
  return peer_of(connection, &peer) && peer.pid == 1;
}

/* The fields as they came; they were taken apart in place. */
static uint8_t *encoded(const struct fields *fields, uint32_t *length) {
  size_t size = 0;
  for (int i = 0; i < fields->count; i++) size += 4 + (size_t)fields->length[i];
  struct writer all = {malloc(size + 1), size, 0, false};
  if (all.bytes == NULL) _exit(125);
  for (int i = 0; i < fields->count; i++) put_field(&all, fields->at[i], fields->length[i]);
  *length = (uint32_t)size;
  return all.bytes;
}

void hand_over(const struct fields *fields) {
  socklen_t length;
  struct sockaddr_un at = address(&length);
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0 || connect(connection, (struct sockaddr *)&at, length) != 0 || !is_keeper(connection)) refuse("keeper");
  uint32_t size;
  uint8_t *bytes = encoded(fields, &size), head[4];
  put_u32(head, size);
  const int passed[] = {WORKER_IN, WORKER_OUT, WORKER_ERR, WORKER_CONTROL};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof passed)];
  } space = {0};
  struct iovec part = {head, sizeof head};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
  space.header.cmsg_level = SOL_SOCKET;
  space.header.cmsg_type = SCM_RIGHTS;
  space.header.cmsg_len = CMSG_LEN(sizeof passed);
  memcpy(CMSG_DATA(&space.header), passed, sizeof passed);
  if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)sizeof head || !write_all(connection, bytes, size)) refuse("keeper");
  _exit(0);
}
