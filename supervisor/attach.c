#include "supervisor.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/*
 * The channel: many streams over the standard input and output of this process. It owns the streams' descriptors and nothing else: each command
 * and each call on files is done by a worker, a process of its own, so that none holds up another.
 *
 * 1. A stream ends with exactly one END, after which its number means nothing.
 * 2. No output is read of a worker without credit, or room in the output buffer; so both sides need bounded memory.
 * 3. What a command prints beyond its bound is read and dropped here, and needs no credit.
 * 4. A worker whose control socket ends, as it does when this process ends, ends everything that it started.
 */

/* What waits to be written to the service; output of workers is read only while a whole frame of it fits. */
#define OUTGOING_BYTES_MAX (512u << 10)
#define PIPE_BYTES (256 << 10)
/* The time that an output may stay open after its worker has ended, because somebody holds it who is no child of it, ms. */
#define HELD_OUTPUT_MS 2000
/* The time that a worker has to end after its reset, ms: more than a command's, which may have to kill what forks. Then it is killed itself. */
#define RESET_MS 15000

struct stream {
  struct stream *next;
  uint32_t id;
  pid_t worker;
  /* The worker's input, its outputs and its control socket; -1 once closed. A terminal and a connection have one descriptor for both. */
  int in, out, err, control;
  bool shared, connecting;
  uint8_t *pending;
  size_t pending_length, pending_start;
  /* The input that was consumed and not yet given back as credit. */
  uint32_t consumed;
  bool input_ended;
  uint64_t credit;
  bool bounded;
  uint64_t bound, dropped;
  /* The call may be ended at any instant, since it leaves nothing half done. */
  bool killable;
  /* The worker has ended, or there never was one. */
  bool ended;
  uint64_t ended_at;
  /* The time of the reset, 0 before. */
  uint64_t reset_at;
  uint8_t *result;
  size_t result_length;
};

static struct stream *streams;
static int stream_count;
static uint8_t outgoing[OUTGOING_BYTES_MAX];
static size_t outgoing_start, outgoing_length;
static int signals, nothing;
static bool strays;

static size_t room(void) {
  return OUTGOING_BYTES_MAX - outgoing_length;
}

static void fail(const char *why) {
  dprintf(2, "supervisor: %s\n", why);
  exit(3);
}

static void put_header(uint8_t *at, uint32_t stream, uint8_t type, uint8_t output, uint32_t length) {
  put_u32(at, stream);
  at[4] = type;
  at[5] = output;
  at[6] = at[7] = 0;
  put_u32(at + 8, length);
}

static void compact(void) {
  if (outgoing_start == 0) return;
  memmove(outgoing, outgoing + outgoing_start, outgoing_length);
  outgoing_start = 0;
}

/* Credit, answers and ends are small, and bounded by the number of streams: they always fit, since output leaves half of the buffer free. */
static void send_frame(uint32_t stream, uint8_t type, const void *bytes, uint32_t length) {
  if (room() < HEADER_BYTES + length) fail("the output buffer is full");
  compact();
  uint8_t *at = outgoing + outgoing_length;
  put_header(at, stream, type, NO_OUTPUT, length);
  if (length > 0) memcpy(at + HEADER_BYTES, bytes, length);
  outgoing_length += HEADER_BYTES + length;
}

static void flush(void) {
  while (outgoing_length > 0) {
    ssize_t written = write(STDOUT_FILENO, outgoing + outgoing_start, outgoing_length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written <= 0) exit(0);
    outgoing_start += (size_t)written;
    outgoing_length -= (size_t)written;
  }
  outgoing_start = 0;
}

static void close_input(struct stream *stream) {
  if (stream->in < 0) return;
  if (stream->shared) {
    if (stream->worker == 0) shutdown(stream->in, SHUT_WR);
    stream->in = -1;
  } else {
    close_fd(&stream->in);
  }
}

static void set_result(struct stream *stream, const void *bytes, size_t length) {
  if (stream->result != NULL) return;
  stream->result = malloc(length + 1);
  if (stream->result == NULL) fail("no memory");
  memcpy(stream->result, bytes, length);
  stream->result_length = length;
}

static void set_refusal(struct stream *stream, const char *reason, int problem) {
  uint8_t bytes[512];
  struct writer result = {bytes, sizeof bytes, 0, false};
  put_text(&result, "refused");
  put_text(&result, reason);
  put_text(&result, problem == 0 ? "" : strerror(problem));
  set_result(stream, bytes, result.length);
}

static struct stream *find_stream(uint32_t id) {
  struct stream *stream = streams;
  while (stream != NULL && stream->id != id) stream = stream->next;
  return stream;
}

static bool is_worker(pid_t pid) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->worker == pid && !stream->ended) return true;
  return false;
}

/* --- opening --- */

static void make_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) {
    ends[0] = ends[1] = -1;
    return;
  }
  fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
}

static void run_worker(const struct fields *fields, bool terminal) {
  signal(SIGPIPE, SIG_DFL);
  const char *call = field_text(fields, 0);
  if (terminal || strcmp(call, "exec") == 0) run_command(fields, terminal ? TERMINAL : COMMAND);
  if (strcmp(call, "session") == 0 || strncmp(call, "keep-", 5) == 0) hand_over(fields);
  run_file_call(fields);
  _exit(125);
}

static void start_worker(struct stream *stream, const struct fields *fields, bool terminal) {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, control[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) control[0] = control[1] = -1;
  if (terminal) {
    struct winsize size = {.ws_col = (unsigned short)field_number(fields, 1, 80), .ws_row = (unsigned short)field_number(fields, 2, 24)};
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, &size) == 0) {
      fcntl(master, F_SETFD, FD_CLOEXEC);
      in[1] = out[0] = master;
      in[0] = out[1] = err[1] = slave;
    }
  } else {
    make_pipe(in);
    make_pipe(out);
    make_pipe(err);
  }
  bool complete = in[0] >= 0 && out[0] >= 0 && err[1] >= 0 && control[0] >= 0;
  pid_t worker = complete ? fork() : -1;
  int problem = errno;
  if (worker == 0) {
    place_descriptors((const int[]){in[0], out[1], err[1], control[1]}, 4);
    run_worker(fields, terminal);
  }
  close_fd(&in[0]);
  if (!terminal) close_fd(&out[1]);
  if (!terminal) close_fd(&err[1]);
  close_fd(&control[1]);
  stream->in = in[1];
  stream->out = out[0];
  stream->err = err[0];
  stream->control = control[0];
  stream->shared = terminal;
  stream->worker = worker > 0 ? worker : 0;
  if (worker > 0) {
    set_nonblocking(stream->in);
    set_nonblocking(stream->out);
    if (stream->err >= 0) set_nonblocking(stream->err);
    return;
  }
  if (stream->shared) stream->in = -1;
  close_fd(&stream->in);
  close_fd(&stream->out);
  close_fd(&stream->err);
  close_fd(&stream->control);
  stream->ended = true;
  set_refusal(stream, "busy", problem);
}

/* Connects to a port of the container's own loopback address, or to a socket in its files. */
static void dial(struct stream *stream, const struct fields *fields) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  const char *kind = field_text(fields, 1), *where = field_text(fields, 2);
  v4.sin_port = v6.sin6_port = htons((uint16_t)field_number(fields, 2, 0));
  struct sockaddr *address = (struct sockaddr *)&v4;
  socklen_t length = sizeof v4;
  if (strcmp(kind, "tcp6") == 0) {
    address = (struct sockaddr *)&v6;
    length = sizeof v6;
  } else if (strcmp(kind, "unix") == 0) {
    if (*where == 0 || strlen(where) >= sizeof local.sun_path) {
      stream->ended = true;
      set_refusal(stream, "invalid_path", 0);
      return;
    }
    strcpy(local.sun_path, where);
    address = (struct sockaddr *)&local;
    length = sizeof local;
  }
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && (connect(fd, address, length) == 0 || errno == EINPROGRESS)) {
    stream->in = stream->out = fd;
    stream->shared = stream->connecting = true;
    return;
  }
  stream->ended = true;
  set_refusal(stream, "unreachable", errno);
  if (fd >= 0) close(fd);
}

static void open_stream(uint32_t id, uint8_t *bytes, uint32_t length) {
  static struct fields fields;
  if (id == 0 || find_stream(id) != NULL || length < 4) fail("a stream can't be opened so");
  if (!fields_parse(&fields, bytes + 4, length - 4)) fail("a stream was opened with something else than fields");
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) fail("no memory");
  stream->id = id;
  stream->in = stream->out = stream->err = stream->control = -1;
  stream->credit = get_u32(bytes);
  stream->next = streams;
  streams = stream;
  const char *call = field_text(&fields, 0);
  if (++stream_count > STREAMS_MAX) {
    stream->ended = true;
    set_refusal(stream, "busy", 0);
  } else if (strcmp(call, "dial") == 0) {
    dial(stream, &fields);
  } else {
    if (strcmp(call, "exec") == 0 || strcmp(call, "session") == 0) {
      stream->bound = (uint64_t)field_number(&fields, 2, 0);
      stream->bounded = true;
    }
    stream->killable = strcmp(call, "list") == 0 || strcmp(call, "read") == 0 || strcmp(call, "remove") == 0 || strcmp(call, "measure") == 0;
    start_worker(stream, &fields, strcmp(call, "terminal") == 0);
  }
}

/* --- input --- */

static void give_credit(struct stream *stream) {
  if (stream->consumed < INPUT_WINDOW_BYTES / 4) return;
  uint8_t bytes[4];
  put_u32(bytes, stream->consumed);
  send_frame(stream->id, CREDIT, bytes, sizeof bytes);
  stream->consumed = 0;
}

static void end_input(struct stream *stream) {
  /* A worker tells an input that was sent whole from one that broke off by this. */
  char packet = PACKET_INPUT_ENDED;
  if (stream->control >= 0) send(stream->control, &packet, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (stream->shared && stream->worker > 0) {
    /* A terminal has no other end of its input. */
    static const char end_of_file = 4;
    if (stream->in >= 0 && write(stream->in, &end_of_file, 1) < 0) return;
    return;
  }
  close_input(stream);
}

static void feed(struct stream *stream) {
  while (stream->pending_length > 0 && stream->in >= 0 && !stream->connecting) {
    ssize_t written = write(stream->in, stream->pending + stream->pending_start, stream->pending_length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) {
      close_input(stream);
      break;
    }
    stream->pending_start += (size_t)written;
    stream->pending_length -= (size_t)written;
    stream->consumed += (uint32_t)written;
  }
  /* Nobody reads the rest, and its sender may go on. */
  if (stream->in < 0) {
    stream->consumed += (uint32_t)stream->pending_length;
    stream->pending_length = 0;
  }
  if (stream->pending_length == 0) {
    free(stream->pending);
    stream->pending = NULL;
    stream->pending_start = 0;
    if (stream->input_ended && stream->in >= 0 && !stream->connecting) {
      stream->input_ended = false;
      end_input(stream);
    }
  }
  give_credit(stream);
}

static void add_input(struct stream *stream, const uint8_t *bytes, uint32_t length) {
  if (stream->pending_length + length > INPUT_WINDOW_BYTES) fail("more input than there was credit for");
  if (stream->pending == NULL && (stream->pending = malloc(INPUT_WINDOW_BYTES)) == NULL) fail("no memory");
  if (stream->pending_start + stream->pending_length + length > INPUT_WINDOW_BYTES) {
    memmove(stream->pending, stream->pending + stream->pending_start, stream->pending_length);
    stream->pending_start = 0;
  }
  memcpy(stream->pending + stream->pending_start + stream->pending_length, bytes, length);
  stream->pending_length += length;
  feed(stream);
}

static void control(struct stream *stream, uint8_t *bytes, uint32_t length) {
  static struct fields fields;
  if (!fields_parse(&fields, bytes, length)) fail("a control frame is no list of fields");
  const char *word = field_text(&fields, 0);
  if (strcmp(word, "resize") == 0 && stream->shared && stream->worker > 0 && stream->out >= 0) {
    struct winsize size = {.ws_col = (unsigned short)field_number(&fields, 1, 80), .ws_row = (unsigned short)field_number(&fields, 2, 24)};
    ioctl(stream->out, TIOCSWINSZ, &size);
  } else if (strcmp(word, "signal") == 0 && stream->control >= 0) {
    char packet[2] = {PACKET_SIGNAL, (char)field_number(&fields, 1, SIGTERM)};
    send(stream->control, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

/* Ends the stream's work: its worker sees the end of its control socket, and a call on files also that of its output. */
static void reset(struct stream *stream) {
  set_refusal(stream, "reset", 0);
  if (stream->reset_at == 0) stream->reset_at = now_ms();
  if (stream->killable && !stream->ended) kill(stream->worker, SIGKILL);
  stream->pending_length = 0;
  if (stream->shared && stream->worker == 0) stream->ended = true;
  close_input(stream);
  close_fd(&stream->out);
  close_fd(&stream->err);
  close_fd(&stream->control);
}

static void handle_frame(uint32_t id, uint8_t type, uint8_t *bytes, uint32_t length) {
  if (type == OPEN) {
    open_stream(id, bytes, length);
    return;
  }
  if (type != DATA && type != END && type != CREDIT && type != RESET && type != CONTROL) fail("a frame of an unknown type");
  /* What was sent before the service knew of the stream's end. */
  struct stream *stream = find_stream(id);
  if (stream == NULL) return;
  if (type == DATA) add_input(stream, bytes, length);
  if (type == CREDIT && length >= 4) stream->credit += get_u32(bytes);
  if (type == CONTROL) control(stream, bytes, length);
  if (type == RESET) reset(stream);
  if (type == END) {
    stream->input_ended = true;
    feed(stream);
  }
}

static uint8_t *incoming;
static size_t incoming_capacity, incoming_length;

static void reserve_incoming(size_t capacity) {
  if (capacity <= incoming_capacity) return;
  incoming = realloc(incoming, capacity);
  if (incoming == NULL) fail("no memory");
  incoming_capacity = capacity;
}

/* Returns the bytes of the frame at the place, 0 if they have not all come. */
static size_t frame_at(size_t at) {
  if (incoming_length - at < HEADER_BYTES) return 0;
  uint32_t length = get_u32(incoming + at + 8);
  if (length > (incoming[at + 4] == OPEN ? OPEN_BYTES_MAX : DATA_BYTES_MAX)) fail("a frame is too long");
  reserve_incoming(HEADER_BYTES + (size_t)length + 1 + at);
  return incoming_length - at < HEADER_BYTES + length ? 0 : HEADER_BYTES + length;
}

static void receive(void) {
  reserve_incoming(2 * (HEADER_BYTES + DATA_BYTES_MAX));
  ssize_t got = read(STDIN_FILENO, incoming + incoming_length, incoming_capacity - incoming_length - 1);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  /* The service has gone, or wants no channel any more. */
  if (got <= 0) exit(0);
  incoming_length += (size_t)got;
  size_t at = 0, size;
  while ((size = frame_at(at)) > 0) {
    /* The fields of a frame may write one byte behind it, which belongs to the next one. */
    uint8_t *end = incoming + at + size, next = *end;
    handle_frame(get_u32(incoming + at), incoming[at + 4], incoming + at + HEADER_BYTES, (uint32_t)(size - HEADER_BYTES));
    *end = next;
    at += size;
  }
  incoming_length -= at;
  memmove(incoming, incoming + at, incoming_length);
  if (incoming_length == 0 && incoming_capacity > 4 * DATA_BYTES_MAX) {
    free(incoming);
    incoming = NULL;
    incoming_capacity = 0;
  }
}

/* --- output --- */

/* Output is read while it leaves half of the buffer to answers. */
static bool may_read(const struct stream *stream) {
  if (stream->bounded && stream->bound == 0) return true;
  return stream->credit > 0 && room() >= OUTGOING_BYTES_MAX / 2 + HEADER_BYTES + DATA_BYTES_MAX;
}

static void drop_output(struct stream *stream, int *fd) {
  ssize_t got = splice(*fd, NULL, nothing, NULL, 1 << 20, SPLICE_F_NONBLOCK);
  if (got > 0) stream->dropped += (uint64_t)got;
  else if (got == 0 || (errno != EAGAIN && errno != EINTR)) close_fd(fd);
}

static void close_output(struct stream *stream, int *fd) {
  /* The descriptor of a connection is closed with its second half. */
  if (fd == &stream->out && stream->shared) stream->in = -1;
  close_fd(fd);
}

static void pass_output(struct stream *stream, int *fd, uint8_t output) {
  if (stream->bounded && stream->bound == 0) {
    drop_output(stream, fd);
    return;
  }
  if (!may_read(stream)) return;
  compact();
  size_t most = DATA_BYTES_MAX;
  if (most > stream->credit) most = stream->credit;
  if (stream->bounded && most > stream->bound) most = stream->bound;
  uint8_t *at = outgoing + outgoing_length;
  ssize_t got = read(*fd, at + HEADER_BYTES, most);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  /* A terminal that nobody has open any more answers EIO. */
  if (got <= 0) {
    close_output(stream, fd);
    return;
  }
  put_header(at, stream->id, DATA, output, (uint32_t)got);
  outgoing_length += HEADER_BYTES + (size_t)got;
  stream->credit -= (uint64_t)got;
  if (stream->bounded) stream->bound -= (uint64_t)got;
  /* Programs that escaped may fill a terminal for ever. */
  if (!stream->shared) stream->ended_at = now_ms();
}

static bool has_room_for_packet(void) {
  return room() >= OUTGOING_BYTES_MAX / 4 + HEADER_BYTES + PACKET_BYTES_MAX;
}

static void read_control(struct stream *stream) {
  static uint8_t packet[PACKET_BYTES_MAX];
  while (stream->control >= 0 && has_room_for_packet()) {
    ssize_t got = recv(stream->control, packet, sizeof packet, MSG_DONTWAIT);
    /* A worker that ended with something unread: what it said before comes after this error. */
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      close_fd(&stream->control);
      return;
    }
    if (packet[0] == PACKET_RESULT) set_result(stream, packet + 1, (size_t)got - 1);
    else if (packet[0] == PACKET_HEAD) send_frame(stream->id, HEAD, packet + 1, (uint32_t)got - 1);
  }
}

static void finish_connecting(struct stream *stream) {
  int problem = 0;
  socklen_t length = sizeof problem;
  getsockopt(stream->in, SOL_SOCKET, SO_ERROR, &problem, &length);
  stream->connecting = false;
  if (problem == 0) {
    send_frame(stream->id, HEAD, NULL, 0);
    feed(stream);
    return;
  }
  set_refusal(stream, "unreachable", problem);
  stream->in = -1;
  close_fd(&stream->out);
  stream->ended = true;
}

static void reap(void) {
  struct signalfd_siginfo signal;
  while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) continue;
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
    for (struct stream *stream = streams; stream != NULL; stream = stream->next)
      if (stream->worker == pid && !stream->ended) {
        stream->ended = true;
        stream->ended_at = now_ms();
        /* Whoever killed the worker has left what the worker had started to this process. */
        if (WIFSIGNALED(status)) strays = true;
      }
}

static void end_stream(struct stream *stream) {
  uint8_t dropped[8 + 4];
  size_t length = stream->result_length;
  put_u32(dropped, 8);
  put_u64(dropped + 4, stream->dropped);
  uint8_t *bytes = malloc(length + sizeof dropped);
  if (bytes == NULL) fail("no memory");
  memcpy(bytes, dropped, sizeof dropped);
  memcpy(bytes + sizeof dropped, stream->result, length);
  send_frame(stream->id, END, bytes, (uint32_t)(length + sizeof dropped));
  free(bytes);
  if (!stream->shared) close_fd(&stream->in);
  close_fd(&stream->out);
  close_fd(&stream->err);
  close_fd(&stream->control);
  free(stream->pending);
  free(stream->result);
}

static bool is_over(struct stream *stream, uint64_t now) {
  /* Somebody has stopped it, or its call hangs in the kernel. */
  if (!stream->ended && stream->worker > 0 && stream->reset_at != 0 && now - stream->reset_at >= RESET_MS) kill(stream->worker, SIGKILL);
  if (stream->worker == 0 && stream->shared && !stream->connecting && stream->out < 0) {
    /* A connection that the other side has ended. */
    set_result(stream, "\2\0\0\0ok", 6);
    return true;
  }
  if (!stream->ended || stream->control >= 0) return false;
  if (stream->result == NULL) set_refusal(stream, "killed", 0);
  if (stream->out < 0 && stream->err < 0) return true;
  if (!may_read(stream)) stream->ended_at = now;
  return now - stream->ended_at >= HELD_OUTPUT_MS;
}

static void end_streams(void) {
  uint64_t now = now_ms();
  struct stream **at = &streams;
  while (*at != NULL) {
    struct stream *stream = *at;
    if (is_over(stream, now) && room() >= HEADER_BYTES + 12 + stream->result_length) {
      end_stream(stream);
      *at = stream->next;
      free(stream);
      stream_count--;
    } else {
      at = &stream->next;
    }
  }
}

/* --- the loop --- */

enum watched { WATCH_NONE, WATCH_CONTROL, WATCH_OUT, WATCH_ERR, WATCH_IN };

struct watch {
  struct stream *stream;
  enum watched what;
};

static struct pollfd wanted[3 + 4 * (STREAMS_MAX + 1) * 2];
static struct watch watches[sizeof wanted / sizeof *wanted];
static int wanted_count;

static void want(int fd, short events, struct stream *stream, enum watched what) {
  if (fd < 0 || wanted_count == (int)(sizeof wanted / sizeof *wanted)) return;
  wanted[wanted_count] = (struct pollfd){fd, events, 0};
  watches[wanted_count++] = (struct watch){stream, what};
}

static int collect(void) {
  int timeout = strays ? 20 : -1;
  wanted_count = 0;
  want(signals, POLLIN, NULL, WATCH_NONE);
  want(STDIN_FILENO, room() >= OUTGOING_BYTES_MAX / 4 ? POLLIN : 0, NULL, WATCH_NONE);
  want(STDOUT_FILENO, outgoing_length > 0 ? POLLOUT : 0, NULL, WATCH_NONE);
  for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
    if (has_room_for_packet()) want(stream->control, POLLIN, stream, WATCH_CONTROL);
    if (!stream->connecting && may_read(stream)) {
      want(stream->out, POLLIN, stream, WATCH_OUT);
      want(stream->err, POLLIN, stream, WATCH_ERR);
    }
    if (stream->connecting || stream->pending_length > 0) want(stream->in, POLLOUT, stream, WATCH_IN);
    if ((stream->ended || stream->reset_at != 0) && (timeout < 0 || timeout > 100)) timeout = 100;
  }
  return timeout;
}

static void handle(struct pollfd *found, struct watch *watch) {
  struct stream *stream = watch->stream;
  if (found->revents == 0 || stream == NULL) return;
  if (watch->what == WATCH_CONTROL && stream->control == found->fd) read_control(stream);
  if (watch->what == WATCH_OUT && stream->out == found->fd) pass_output(stream, &stream->out, STDOUT);
  if (watch->what == WATCH_ERR && stream->err == found->fd) pass_output(stream, &stream->err, STDERR);
  if (watch->what == WATCH_IN && stream->in == found->fd) {
    if (stream->connecting) finish_connecting(stream);
    else feed(stream);
  }
}

static void greet(void) {
  uint8_t bytes[64];
  struct writer hello = {bytes, sizeof bytes, 0, false};
  put_text(&hello, "mooring-supervisor");
  put_text(&hello, PROTOCOL_VERSION);
  put_number(&hello, INPUT_WINDOW_BYTES);
  put_number(&hello, STREAMS_MAX);
  send_frame(0, HELLO, bytes, (uint32_t)hello.length);
}

int run_attach(void) {
  hide();
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  signals = watch_children();
  nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) die("/dev/null");
  if (!environment_load()) {
    dprintf(2, "supervisor: the agent's variables can't be had from the first process\n");
    return 125;
  }
  set_nonblocking(STDIN_FILENO);
  set_nonblocking(STDOUT_FILENO);
  greet();
  for (;;) {
    flush();
    int timeout = collect();
    if (poll(wanted, (nfds_t)wanted_count, timeout) < 0 && errno != EINTR) die("poll");
    if (wanted[0].revents != 0) reap();
    for (int i = 3; i < wanted_count; i++) handle(&wanted[i], &watches[i]);
    if ((wanted[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive();
    if (strays) strays = kill_children(is_worker) > 0;
    end_streams();
  }
}
