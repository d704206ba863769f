/*
 * The program that runs as the first process of every agent's container, and that does commands and files in it. docs/reference/supervisor.md has its
 * protocol, its bounds and who trusts whom.
 */
#ifndef SUPERVISOR_H
#define SUPERVISOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#define PROTOCOL_VERSION "1"
/* A frame begins with the stream (4 bytes), the type (1), the output (1), two zeros and the length of what follows (4), all little-endian. */
#define HEADER_BYTES 12
#define DATA_BYTES_MAX 65536u
#define OPEN_BYTES_MAX (4u << 20)
/* The input of a stream that may be under way: what the service sends before it is given more credit. */
#define INPUT_WINDOW_BYTES (256u << 10)
#define STREAMS_MAX 64
#define FIELDS_MAX 8192
/* The longest path, and the most links that are followed on the way. */
#define PATH_BYTES_MAX 65536u
#define LINKS_MAX 40

enum frame_type { HELLO = 1, OPEN, DATA, END, CREDIT, RESET, CONTROL, HEAD };
enum output { NO_OUTPUT, STDOUT, STDERR };

/* The descriptors of a worker: its input, its two outputs, and the socket on which it answers and is told to stop. */
enum { WORKER_IN = 0, WORKER_OUT = 1, WORKER_ERR = 2, WORKER_CONTROL = 3 };
/* The first byte of a packet on the control socket. */
enum packet { PACKET_HEAD = 'H', PACKET_RESULT = 'R', PACKET_INPUT_ENDED = 'E', PACKET_SIGNAL = 'S' };
#define PACKET_BYTES_MAX 65536u

/* --- fields.c: lists of byte strings, each with its length (4 bytes) before it --- */

struct fields {
  int count;
  const char *at[FIELDS_MAX];
  uint32_t length[FIELDS_MAX];
};

/* Every field is followed by a NUL afterwards, so that it can be used as a string. Returns false for what is no list of fields. */
bool fields_parse(struct fields *fields, uint8_t *bytes, size_t length);
/* The field as a string; the empty string if there is none. */
const char *field_text(const struct fields *fields, int index);
/* The field as a decimal number; `otherwise` unless it is one. */
int64_t field_number(const struct fields *fields, int index, int64_t otherwise);

struct writer {
  uint8_t *bytes;
  size_t capacity;
  size_t length;
  bool full;
};

void put_field(struct writer *writer, const void *bytes, size_t length);
void put_text(struct writer *writer, const char *text);
void put_number(struct writer *writer, int64_t number);
void put_u32(uint8_t *at, uint32_t value);
uint32_t get_u32(const uint8_t *at);
void put_u64(uint8_t *at, uint64_t value);
uint64_t get_u64(const uint8_t *at);

/* --- util.c --- */

void die(const char *what) __attribute__((noreturn));
/* Writes all of it to a descriptor that blocks. Returns false if that fails. */
bool write_all(int fd, const void *bytes, size_t length);
/* Reads until the buffer is full or the input ends; returns the number of bytes, -1 on an error. */
ssize_t read_all(int fd, void *bytes, size_t length);
/* Closes the descriptor, if there is one, and notes that. */
void close_fd(int *fd);
void set_nonblocking(int fd);
/* Closes every descriptor from `first` on. */
void close_from(int first);
/* Makes this process one that no other of its user can trace or read the memory of. */
void hide(void);
void unblock_signals(void);
/* Blocks the signal of children that ended, and returns the descriptor on which it is read instead. */
int watch_children(void);
/*
 * Runs the program in the place of this process; a script without a first line that names its shell is run by /bin/sh, or by the helper where there
 * is none. Returns if that fails.
 */
void execute(const char *path, char **argv, char **environment, const char *helper);
/* Says why the program could not be run, and ends this process. The path is where it was found; the empty string if it was not. */
void fail_to_run(const char *name, const char *path, int problem) __attribute__((noreturn));
/* Returns the exit code for the status of a process that has ended: 128 and the signal's number if one ended it. */
int exit_code_of(int status);
/* Sends SIGKILL to every child of this process but those for which `keep` holds; returns how many it found. */
int kill_children(bool (*keep)(pid_t));
uint64_t now_ms(void);

/* Moves the descriptors to the first numbers, but those of -1, and closes all others. The control socket is closed by what is executed. */
void place_descriptors(const int *from, int count);

/* --- sockets.c --- */

/* The address of that name in the network namespace of the container, in which nobody but the agent is. */
struct sockaddr_un abstract_address(const char *name, socklen_t *length);
/* Returns a socket that listens there and does not block, -1 if there is none. */
int listen_at(const struct sockaddr_un *at, socklen_t length);
bool peer_of(int connection, struct ucred *peer);
/* Whether the other side has the user of this process. */
bool is_own_user(int connection);

/* --- entry points --- */

int run_init(char **argv);
int run_attach(void);
/* Holds commands and sessions for a container, whose first process has listened. */
void run_keeper(int listener) __attribute__((noreturn));
/* Holds those of an agent without a container, for whoever connects to the socket file, as long as that process lives. */
int run_keeper_at(const char *name, pid_t agent);

/* --- environment.c --- */

extern char **agent_environment;
/* Reads the variables of the agent from the service; returns false if they did not come whole. */
bool environment_receive(int fd);
/*
 * Asks the first process for the agent's environment; outside of a container it is that of this process. Returns false if there is a first
 * process and the environment did not come whole.
 */
bool environment_load(void);
/* Listens for those who ask; returns the socket, -1 if there is none. */
int environment_listen(void);
/* Answers one connection in a process of its own; returns that, -1 if there is none. */
pid_t environment_answer(int listener);
/* Returns the environment with the variables over it, each `NAME=value`, or a name alone, which takes the variable away. */
char **environment_with(const char *const *variables, int count);
const char *environment_value(char **environment, const char *name);
/* Finds the program as execvp would. Returns 0 and the path, or the error number. */
int find_program(const char *name, char **environment, char *path, size_t capacity);

/* --- runner.c: a command --- */

/* A command of one call, the shell of a terminal, a command that goes on, the shell of a session. */
enum runner_kind { COMMAND, TERMINAL, KEPT, SESSION };

/* Runs in a worker. The fields are those of the stream's OPEN frame. */
void run_command(const struct fields *fields, enum runner_kind kind) __attribute__((noreturn));
/* What the fields stand in, which is freed once the command has started; NULL for nothing. */
extern uint8_t *runner_request;

/* --- keep-client.c --- */

/* The socket file of the keeper; NULL in a container. */
extern const char *keeper_path;
int keeper_listen(void);
/* Hands the worker's descriptors to the keeper, which answers in its place, and ends. */
void hand_over(const struct fields *fields) __attribute__((noreturn));

/* --- files.c, walk.c, remove.c, tar.c: calls on files, each in a worker --- */

/* Runs the call of that name and ends the process; returns if there is none. */
void run_file_call(const struct fields *fields);

struct place {
  /* The folder, held by its descriptor. */
  int folder;
  /* The last name in it; the empty string stands for the folder itself. */
  char name[NAME_MAX + 1];
  /* The rest of the path after a name that does not exist. */
  char missing[PATH_BYTES_MAX];
  /* The type of what is there (S_IFMT of its mode), 0 for nothing. */
  mode_t kind;
};

/* The root of the volume: its path and its folder. */
extern const char *volume_path;
extern int volume_folder;
extern bool confined;

void open_volume(const char *path);
/* Finds the path, which starts at the volume unless it is absolute. Ends the process with an answer if it can't be found. */
void walk(const char *path, bool follow_last, struct place *place);
/* Returns the path that the kernel knows the descriptor by; ends the process if there is none. */
const char *path_of(int fd);
bool is_in_volume(const char *path);
/* Refuses unless the name in the folder is in the volume. */
void require_inside(int folder, const char *name);
mode_t kind_of(int folder, const char *name);
int enter(int folder, const char *name);
/* Creates the folders of the path, and returns the last one. */
int make_folders(int folder, const char *path);
/* Refuses a path in which the system shows its processes or devices, which hold the agent's variables. */
void require_permitted(const char *path);
/* Ends the process with a refusal. */
void refuse(const char *reason) __attribute__((noreturn));
/* Ends the process with the refusal that the error number stands for. */
void refuse_errno(void) __attribute__((noreturn));
void finish(struct writer *result) __attribute__((noreturn));
void answer_head(struct writer *head);
/* Waits for the service's word to go on: the bytes of one DATA frame. */
void await_input(void *bytes, size_t length);

void write_tar(int parent, const char *name);
void remove_folder(struct place *place, const char *unused);
void measure(const struct fields *fields) __attribute__((noreturn));

#endif
