#include "supervisor.h"
#include <poll.h>
#include <sys/time.h>

extern char **environ;
char **agent_environment;

/*
 * The variables come as this word, their length (4 bytes), their checksum (4) and a list of fields, each `NAME=value`. Two services that start
 * one container at once may both be told that they did, and what they write then comes mixed.
 */
static const char magic[] = "MOORING2";
#define VARIABLES_BYTES_MAX (8u << 20)
/* A name in the network namespace of the container, in which nobody but the agent is. */
static const char socket_name[] = "mooring-supervisor";
#define ANSWER_SECONDS 5
/* The time within which the first process has to listen, ms: it may still wait for the variables. */
#define LISTEN_MS 5000
/* The time within which the variables have to come, ms. */
#define RECEIVE_MS 60000

static char **with_fields(const struct fields *fields) {
  const char **variables = (const char **)fields->at;
  return environment_with(variables, fields->count);
}

/* As read_all, but only within the time. */
static ssize_t read_in_time(int fd, void *bytes, size_t length, uint64_t until) {
  size_t size = 0;
  for (uint64_t now; size < length && (now = now_ms()) < until;) {
    struct pollfd input = {fd, POLLIN, 0};
    if (poll(&input, 1, (int)(until - now)) <= 0) continue;
    ssize_t got = read(fd, (char *)bytes + size, length - size);
    if (got <= 0) break;
    size += (size_t)got;
  }
  return (ssize_t)size;
}

/* FNV-1a of 32 bits. */
static uint32_t sum_of(const uint8_t *bytes, size_t length) {
  uint32_t sum = 0x811c9dc5u;
  for (size_t i = 0; i < length; i++) sum = (sum ^ bytes[i]) * 0x01000193u;
  return sum;
}

bool environment_receive(int fd) {
  uint64_t until = now_ms() + RECEIVE_MS;
  uint8_t head[sizeof magic - 1 + 8];
  if (read_in_time(fd, head, sizeof head, until) != (ssize_t)sizeof head || memcmp(head, magic, sizeof magic - 1) != 0) return false;
  uint32_t length = get_u32(head + sizeof magic - 1);
  uint8_t *bytes = length > VARIABLES_BYTES_MAX ? NULL : malloc((size_t)length + 1);
  static struct fields fields;
  if (bytes == NULL || read_in_time(fd, bytes, length, until) != (ssize_t)length) return false;
  if (sum_of(bytes, length) != get_u32(head + sizeof magic - 1 + 4) || !fields_parse(&fields, bytes, length)) return false;
  agent_environment = with_fields(&fields);
  return true;
}

static size_t name_length(const char *variable) {
  const char *end = strchr(variable, '=');
  return end == NULL ? strlen(variable) : (size_t)(end - variable);
}

char **environment_with(const char *const *variables, int count) {
  char **base = agent_environment == NULL ? environ : agent_environment;
  int size = 0;
  while (base[size] != NULL) size++;
  char **all = calloc((size_t)(size + count + 1), sizeof *all);
  if (all == NULL) die("no memory");
  int length = 0;
  for (int i = 0; i < size + count; i++) {
    const char *variable = i < size ? base[i] : variables[i - size];
    size_t name = name_length(variable);
    int at = 0;
    while (at < length && (name_length(all[at]) != name || memcmp(all[at], variable, name) != 0)) at++;
    if (variable[name] == '=') {
      all[at] = (char *)variable;
      if (at == length) length++;
    } else if (at < length) {
      /* A name alone takes the variable away. */
      all[at] = all[--length];
      all[length] = NULL;
    }
  }
  return all;
}

const char *environment_value(char **environment, const char *name) {
  size_t length = strlen(name);
  for (; *environment != NULL; environment++)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return *environment + length + 1;
  return NULL;
}

int environment_listen(void) {
  socklen_t length;
  struct sockaddr_un at = abstract_address(socket_name, &length);
  return listen_at(&at, length);
}

static uint32_t variables_size(void) {
  size_t size = 0;
  for (char **variable = agent_environment; *variable != NULL; variable++) size += 4 + strlen(*variable);
  return (uint32_t)size;
}

pid_t environment_answer(int listener) {
  int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (connection < 0) return -1;
  /* Another user of the container may have been given less than the variables of the first one, and is told of none. */
  bool own = is_own_user(connection);
  static const uint8_t none[4];
  if (!own) send(connection, none, sizeof none, MSG_DONTWAIT | MSG_NOSIGNAL);
  pid_t answer = own ? fork() : -1;
  if (answer == 0) {
    uint8_t total[4];
    /* Somebody who reads slowly does not keep the place of others. */
    unblock_signals();
    alarm(ANSWER_SECONDS);
    put_u32(total, variables_size());
    if (!write_all(connection, total, sizeof total)) _exit(0);
    for (char **variable = agent_environment; *variable != NULL; variable++) {
      uint8_t size[4];
      put_u32(size, (uint32_t)strlen(*variable));
      if (!write_all(connection, size, sizeof size) || !write_all(connection, *variable, strlen(*variable))) break;
    }
    _exit(0);
  }
  close(connection);
  return answer;
}

/* Connects to the first process. One that an engine started has no parent here, and waits until the first process listens. */
static int connect_to_first(void) {
  socklen_t length;
  struct sockaddr_un at = abstract_address(socket_name, &length);
  struct ucred peer;
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  struct timeval limit = {.tv_sec = ANSWER_SECONDS};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int failed = connect(connection, (struct sockaddr *)&at, length);
  for (uint64_t until = now_ms() + LISTEN_MS; failed != 0 && errno == ECONNREFUSED && getppid() == 0 && now_ms() < until;) {
    poll(NULL, 0, 5);
    failed = connect(connection, (struct sockaddr *)&at, length);
  }
  if (failed == 0 && peer_of(connection, &peer) && peer.pid == 1) return connection;
  close(connection);
  return -1;
}

bool environment_load(void) {
  int connection = connect_to_first();
  if (connection < 0) return getppid() != 0;
  static struct fields fields;
  static char *none[] = {NULL};
  uint8_t total[4];
  uint32_t size = read_all(connection, total, sizeof total) == (ssize_t)sizeof total ? get_u32(total) : UINT32_MAX;
  /* Those of the container come to those of the agent. */
  uint8_t *bytes = size > 2 * VARIABLES_BYTES_MAX ? NULL : malloc((size_t)size + 1);
  bool whole = bytes != NULL && read_all(connection, bytes, size) == (ssize_t)size && fields_parse(&fields, bytes, size);
  close(connection);
  if (!whole) return false;
  agent_environment = none;
  agent_environment = with_fields(&fields);
  return true;
}

int find_program(const char *name, char **environment, char *path, size_t capacity) {
  struct stat found;
  int problem = ENOENT;
  if (*name == 0) return ENOENT;
  if (strchr(name, '/') != NULL) {
    if (strlen(name) >= capacity) return ENAMETOOLONG;
    strcpy(path, name);
    return stat(path, &found) == 0 ? 0 : errno;
  }
  const char *folders = environment_value(environment, "PATH");
  if (folders == NULL) folders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (;;) {
    size_t length = strcspn(folders, ":");
    const char *folder = length == 0 ? "." : folders;
    size_t size = length == 0 ? 1 : length;
    if (size + strlen(name) + 2 <= capacity) {
      memcpy(path, folder, size);
      path[size] = '/';
      strcpy(path + size + 1, name);
      if (stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
        if (access(path, X_OK) == 0) return 0;
        problem = EACCES;
      }
    }
    if (folders[length] == 0) return problem;
    folders += length + 1;
  }
}
