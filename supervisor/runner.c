#include "supervisor.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/*
 * One command, or the shell of a terminal. Whatever it starts and leaves behind becomes a child of this process, and ends with the command:
 * it is killed as often as it takes until there is none.
 */

/* The time within which everything is killed, ms, after which what still forks is left to the end of the container. */
#define KILLING_MS_MAX 10000
enum { CALL, TIMEOUT, BOUND, FOLDER, HELPER, VARIABLES, REST };

static const char *const shells[] = {"/bin/bash", "/usr/bin/bash", "/bin/sh", NULL};

/* The helper has the programs that images often lack, under their usual names. */
static bool is_usual_name(const char *word, const char **name) {
  const char *last = strrchr(word, '/');
  *name = last == NULL ? word : last + 1;
  size_t folder = (size_t)(*name - word);
  return folder == 0 || (folder == 5 && memcmp(word, "/bin/", 5) == 0) || (folder == 9 && memcmp(word, "/usr/bin/", 9) == 0);
}

/* The path by which the shell of a session reads its lines (sessions.c). */
static char lines_path[] = "/proc/self/fd/9";
#define SESSION_DESCRIPTORS 10
uint8_t *runner_request;

static void start_command(const struct fields *fields, enum runner_kind kind) {
  int variables = (int)field_number(fields, VARIABLES, 0);
  if (variables < 0 || variables > fields->count - REST) _exit(125);
  char **environment = environment_with((const char *const *)fields->at + REST, variables);
  char **argv = calloc((size_t)fields->count + 2, sizeof *argv);
  if (argv == NULL) die("no memory");
  int count = 0;
  for (int i = REST + variables; i < fields->count; i++) argv[count++] = (char *)fields->at[i];
  if ((kind == TERMINAL || kind == SESSION) && count == 0) {
    const char *const *shell = shells;
    while (*shell != NULL && access(*shell, X_OK) != 0) shell++;
    argv[count++] = *shell == NULL ? "sh" : (char *)*shell;
    if (kind == SESSION) argv[count++] = lines_path;
  }
  if (count == 0) _exit(125);
  const char *folder = field_text(fields, FOLDER);
  if (*folder != 0 && chdir(folder) != 0) {
    dprintf(2, "%s: %s\n", folder, strerror(errno));
    _exit(126);
  }
  char path[PATH_MAX];
  const char *name, *helper = field_text(fields, HELPER);
  int problem = find_program(argv[0], environment, path, sizeof path);
  if (problem != 0) *path = 0;
  else {
    execute(path, argv, environment, helper);
    problem = errno;
  }
  if (problem == ENOENT && *helper != 0 && is_usual_name(argv[0], &name)) {
    argv[0] = (char *)name;
    execve(helper, argv, environment);
  }
  fail_to_run(argv[0], path, problem);
}

static pid_t fork_command(const struct fields *fields, enum runner_kind kind) {
  pid_t runner = getpid(), command = fork();
  if (command != 0) return command;
  /* It ends with the runner, should somebody kill that. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != runner) _exit(125);
  if (kind == SESSION) close(WORKER_CONTROL);
  close_from(kind == SESSION ? SESSION_DESCRIPTORS : WORKER_CONTROL);
  setsid();
  if (kind == TERMINAL) ioctl(0, TIOCSCTTY, 0);
  unblock_signals();
  umask(022);
  start_command(fields, kind);
  _exit(125);
}

static bool by_signal;

/* Reaps whatever has ended. Returns false once there is no child any more. */
static bool reap(pid_t command, int *code) {
  for (;;) {
    int status;
    pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == 0) return true;
    if (ended < 0) return errno == EINTR;
    if (ended != command) continue;
    *code = exit_code_of(status);
    by_signal = WIFSIGNALED(status);
  }
}

static void kill_everything(pid_t command, int *code) {
  uint64_t began = now_ms();
  if (*code < 0) kill(-command, SIGKILL);
  while (reap(command, code) && now_ms() - began < KILLING_MS_MAX) {
    kill_children(NULL);
    poll(NULL, 0, 1);
  }
}

/* Does what the service says. Returns false when the command is to end. */
static bool obey(pid_t command) {
  uint8_t packet[16];
  ssize_t got = recv(WORKER_CONTROL, packet, sizeof packet, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  /* A command that has just been forked has no group yet. */
  if (got == 2 && packet[0] == PACKET_SIGNAL && kill(-command, packet[1]) != 0) kill(command, packet[1]);
  return got > 0;
}

void run_command(const struct fields *fields, enum runner_kind kind) {
  hide();
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  int signals = watch_children();
  pid_t command = fork_command(fields, kind);
  if (command < 0) die("fork");
  /* Only the command and what it starts hold its input and its output. */
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; nothing >= 0 && fd < WORKER_CONTROL; fd++) dup2(nothing, fd);
  if (kind == SESSION)
    for (int fd = WORKER_CONTROL + 1; fd < SESSION_DESCRIPTORS; fd++)
      if (fd != signals) close(fd);
  int64_t limit = kind == TERMINAL ? 0 : field_number(fields, TIMEOUT, 0);
  uint64_t deadline = now_ms() + (uint64_t)(limit > 0 ? limit : 0);
  free(runner_request);
  int code = -1;
  bool late = false;
  while (code < 0) {
    struct signalfd_siginfo signal;
    struct pollfd wanted[] = {{signals, POLLIN, 0}, {WORKER_CONTROL, POLLIN, 0}};
    uint64_t now = now_ms();
    late = limit > 0 && now >= deadline;
    if (late) break;
    if (poll(wanted, 2, limit > 0 ? (int)(deadline - now) : -1) < 0 && errno != EINTR) break;
    while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) continue;
    reap(command, &code);
    if (wanted[1].revents != 0 && !obey(command)) break;
  }
  kill_everything(command, &code);
  uint8_t bytes[128];
  struct writer result = {bytes, sizeof bytes, 0, false};
  bytes[0] = PACKET_RESULT;
  result.length = 1;
  put_text(&result, "exit");
  put_number(&result, code < 0 ? 137 : code);
  put_number(&result, late ? 1 : 0);
  if (kind == KEPT) put_number(&result, by_signal ? 1 : 0);
  send(WORKER_CONTROL, bytes, result.length, MSG_NOSIGNAL);
  _exit(0);
}
