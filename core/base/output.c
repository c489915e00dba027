/* SPDX-License-Identifier: MIT */
/*
** Writing a file: all of it is there under its name at the end, or what was there before.
**
** The bytes go into a file without a name (O_TMPFILE), which gets one beside the target and then
** the target's by a rename; a process that is killed leaves nothing behind.  Where the file system
** has no such files they go into one beside the target.  What is no regular file (a device, a FIFO,
** an open descriptor under /proc) cannot be replaced, so it is written straight.
*/
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/base.h"

/* Bytes between two looks at a request to stop. */
#define PIECE ((int64_t)64 << 20)

struct rg_output {
  int fd;
  bool straight;         /* fd is the target itself */
  bool named;            /* what is written has the name `beside` */
  bool in_place;         /* the target has other names, which keep showing the same file */
  char path[PATH_MAX];   /* the target, links followed */
  char beside[PATH_MAX]; /* a name in its folder */
};

static rg_status refused(const char *path)
{
  return rg_fail(RG_EIO, "%s: %s", path, strerror(errno));
}

/* -- Which file a path means ------------------------------------------------------ */

/* The length of a path's folder, its last '/' included; 0 for a bare name. */
static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');

  return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Does a path lie in /proc, where a link leads to a file and not to a name? */
static bool in_proc(const char *path)
{
  struct statfs facts;
  char folder[PATH_MAX];
  size_t n = folder_length(path);

  snprintf(folder, sizeof(folder), "%.*s", (int)n, path);
  return statfs(n > 0 ? folder : ".", &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

/* Follow symbolic links, also to a name that does not exist yet.  facts: st_mode 0 for such one. */
static rg_status follow(char path[PATH_MAX], struct stat *facts)
{
  char given[PATH_MAX];
  char target[PATH_MAX];

  memcpy(given, path, PATH_MAX);
  for (int links = 0; links < 40; links++) {
    ssize_t n;
    size_t folder;

    if (lstat(path, facts) != 0) {
      facts->st_mode = 0;
      return errno == ENOENT ? RG_OK : refused(given);
    }
    if (!S_ISLNK(facts->st_mode)) {
      return RG_OK;
    }
    if (in_proc(path)) {
      return stat(path, facts) == 0 ? RG_OK : refused(given);
    }
    n = readlink(path, target, sizeof(target));
    if (n < 0) {
      return refused(given);
    }
    folder = n > 0 && target[0] == '/' ? 0 : folder_length(path);
    if (folder + (size_t)n >= PATH_MAX) {
      errno = ENAMETOOLONG;
      return refused(given);
    }
    memcpy(path + folder, target, (size_t)n);
    path[folder + (size_t)n] = '\0';
  }
  errno = ELOOP;
  return refused(given);
}

/* -- What is written straight ------------------------------------------------------ */

/* The descriptor of this process that a path under /proc stands for; -1: none. */
static int own_descriptor(const char *path)
{
  char folder[PATH_MAX];
  char real[PATH_MAX];
  char own[64];
  const char *name = path + folder_length(path);
  char *end;
  long fd;

  snprintf(folder, sizeof(folder), "%.*s", (int)folder_length(path), path);
  snprintf(own, sizeof(own), "/proc/%ld/", (long)getpid());
  if (realpath(folder, real) == NULL || strncmp(real, own, strlen(own)) != 0 ||
      strcmp(strrchr(real, '/'), "/fd") != 0) {
    return -1;
  }
  fd = strtol(name, &end, 10);
  return end != name && *end == '\0' && fd >= 0 && fd < INT_MAX ? (int)fd : -1;
}

static rg_status open_straight(rg_output *output, bool proc)
{
  const int own = proc ? own_descriptor(output->path) : -1;

  output->straight = true;
  /* a descriptor is written on from where it stands, behind what print left in its buffer */
  if (own >= 0) {
    (void)fflush(stdout);
    output->fd = fcntl(own, F_DUPFD_CLOEXEC, 3);
  } else {
    do { /* a FIFO waits for its reader, and Ctrl-C ends that */
      output->fd = open(output->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } while (output->fd < 0 && errno == EINTR && !rg_interrupt_pending());
  }
  if (output->fd < 0 && errno == EINTR) {
    return rg_fail(RG_EINTR, "interrupted while nobody reads %.200s", output->path);
  }
  return output->fd >= 0 ? RG_OK : refused(output->path);
}

/* -- What is replaced -------------------------------------------------------------- */

/* Give a descriptor the owner and the mode of the file that it will replace. */
static void take_mode(int fd, const struct stat *facts)
{
  mode_t mode = facts->st_mode & 0777;

  if (fchown(fd, facts->st_uid, facts->st_gid) != 0 && fchown(fd, (uid_t)-1, facts->st_gid) != 0) {
    /* another group: what the group may do is for that group only */
    mode &= ~(mode_t)070 | (mode & 07) << 3;
  }
  (void)fchmod(fd, mode);
}

static rg_status open_beside(rg_output *output, const struct stat *facts)
{
  static _Atomic int serial;
  const bool exists = facts->st_mode != 0;
  const mode_t mode = exists ? 0600 : 0666;
  const size_t n = folder_length(output->path);
  char folder[PATH_MAX];

  if (snprintf(output->beside, PATH_MAX, "%.*s.ridge-%ld-%d.part", (int)n, output->path,
               (long)getpid(), atomic_fetch_add(&serial, 1)) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return refused(output->path);
  }
  snprintf(folder, sizeof(folder), "%.*s", (int)n, output->path);
  output->in_place = exists && facts->st_nlink > 1;
  output->fd = -1;
  if (!output->in_place && access("/proc/self/fd", X_OK) == 0) {
    output->fd = open(n > 0 ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  }
  if (output->fd < 0) {
    output->named = true;
    output->fd = open(output->beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (output->fd < 0) {
    return refused(output->path);
  }
  if (exists) {
    take_mode(output->fd, facts);
  }
  return RG_OK;
}

/*
** Results that somebody measured are replaced by no other file: does SQLite's mark stand there?
** The descriptor of such a file stays open, for closing it would let go what SQLite has locked
** there in this process.
*/
static bool is_database(const char *path)
{
  static const char mark[16] = "SQLite format 3";
  char head[sizeof(mark)];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0) return false;
  if (read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
      memcmp(head, mark, sizeof(mark)) == 0) {
    return true;
  }
  close(fd);
  return false;
}

rg_status rg_output_new(const char *path, rg_output **out)
{
  struct stat facts;
  rg_output *output;
  rg_status status;
  bool proc;

  if (path == NULL || path[0] == '\0') {
    return rg_fail(RG_EARG, "a file without a name cannot be written");
  }
  if (strlen(path) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return rg_fail(RG_EIO, "%.60s...: %s", path, strerror(errno));
  }
  output = rg_host_zeroed(sizeof(*output));
  if (output == NULL) {
    return rg_fail(RG_ENOMEM, "no memory to write %.200s", path);
  }
  output->fd = -1;
  memcpy(output->path, path, strlen(path) + 1);
  status = follow(output->path, &facts);
  proc = status == RG_OK && facts.st_mode != 0 && in_proc(output->path);
  if (status == RG_OK && S_ISREG(facts.st_mode) && is_database(output->path)) {
    status = rg_fail(RG_EIO, "%.200s: it is a database", output->path);
  }
  if (status == RG_OK) {
    status = facts.st_mode == 0 || (S_ISREG(facts.st_mode) && !proc) ? open_beside(output, &facts)
                                                                     : open_straight(output, proc);
  }
  if (status != RG_OK) {
    rg_host_free(output);
    return status;
  }
  *out = output;
  return RG_OK;
}

/* -- Writing ----------------------------------------------------------------------- */

static rg_status write_all(rg_output *output, int fd, const char *bytes, int64_t n, bool stops)
{
  while (n > 0) {
    const ssize_t done = write(fd, bytes, (size_t)(n < PIECE ? n : PIECE));

    if (done < 0 && errno != EINTR) {
      return refused(output->path);
    }
    if (stops && rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted while %.200s was written", output->path);
    }
    bytes += done > 0 ? done : 0;
    n -= done > 0 ? done : 0;
  }
  return RG_OK;
}

rg_status rg_output_write(rg_output *output, const void *bytes, int64_t n)
{
  if (n < 0 || (bytes == NULL && n > 0)) {
    return rg_fail(RG_EARG, "%lld bytes cannot be written", (long long)n);
  }
  return write_all(output, output->fd, bytes, n, true);
}

/* -- The end ----------------------------------------------------------------------- */

/* Room for all that is going to be written, before anything is overwritten. */
static rg_status make_room(const rg_output *output, int fd)
{
  struct stat facts;

  if (fstat(output->fd, &facts) != 0) {
    return refused(output->path);
  }
  if (facts.st_size > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, facts.st_size) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS) { /* file systems that cannot promise it */
    return refused(output->path);
  }
  return RG_OK;
}

/*
** Write what is whole beside it over the file itself.  Ctrl-C waits until that is done: it would
** leave half of each.
*/
static rg_status copy_over(rg_output *output)
{
  enum { ROOM = 1 << 16 };
  char *room = rg_host_alloc(ROOM);
  int64_t at = 0;
  ssize_t got = 0;
  rg_status status =
      room != NULL ? RG_OK : rg_fail(RG_ENOMEM, "no memory to write %.200s", output->path);
  int to = status == RG_OK ? open(output->path, O_WRONLY | O_CLOEXEC) : -1;

  if (status == RG_OK && to < 0) {
    status = refused(output->path);
  }
  if (status == RG_OK) {
    status = make_room(output, to);
  }
  while (status == RG_OK && (got = pread(output->fd, room, ROOM, at)) != 0) {
    status = got < 0 ? refused(output->path) : write_all(output, to, room, got, false);
    at += got;
  }
  if (status == RG_OK && (ftruncate(to, at) != 0 || fsync(to) != 0)) {
    status = refused(output->path);
  }
  if (to >= 0) {
    (void)close(to);
  }
  rg_host_free(room);
  if (status != RG_OK && at > 0) { /* half of each by now: what is whole stays */
    output->named = false;
    return rg_fail(status, "%.400s; it is whole in %.400s", rg_error_message(), output->beside);
  }
  return status;
}

/* Give what was written the target's name. */
static rg_status replace(rg_output *output)
{
  if (fsync(output->fd) != 0) {
    return refused(output->path);
  }
  if (!output->named) {
    char handle[64];

    snprintf(handle, sizeof(handle), "/proc/self/fd/%d", output->fd);
    if (linkat(AT_FDCWD, handle, AT_FDCWD, output->beside, AT_SYMLINK_FOLLOW) != 0) {
      return refused(output->path);
    }
    output->named = true;
  }
  if (output->in_place) {
    return copy_over(output);
  }
  if (rename(output->beside, output->path) != 0) {
    /* busy: something is mounted on it, as containers do with single files */
    return errno == EBUSY ? copy_over(output) : refused(output->path);
  }
  output->named = false;
  return RG_OK;
}

rg_status rg_output_finish(rg_output *output)
{
  rg_status status = output->straight ? RG_OK : replace(output);

  if (close(output->fd) != 0 && status == RG_OK && output->straight) {
    status = refused(output->path);
  }
  output->fd = -1;
  rg_output_release(output);
  return status;
}

void rg_output_release(rg_output *output)
{
  if (output == NULL) {
    return;
  }
  if (output->fd >= 0) {
    (void)close(output->fd);
  }
  if (output->named) {
    (void)unlink(output->beside);
  }
  rg_host_free(output);
}
