/* SPDX-License-Identifier: MIT */
/*
** Files that are kept between processes: where they are, reading and writing them.
*/
#include "gpu/cache.cuh"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/device.cuh"

enum { PATH_ROOM = 4096 };

/* The path of a file in ridge's folder; make: the folders too.  False: there is no such folder. */
static bool path_of(const char *name, bool make, char path[PATH_ROOM])
{
  const char *cache = getenv("XDG_CACHE_HOME");
#ifdef RG_SIM
  const char *home = getenv("RG_SIM_HOME"); /* tests leave nothing in the user's folder */
#else
  const char *home = getenv("HOME");
#endif
  char folder[3072];
  int n;

  if (cache != NULL && cache[0] == '/') {
    n = snprintf(folder, sizeof(folder), "%s", cache);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(folder, sizeof(folder), "%s/.cache", home);
  } else {
    return false;
  }
  if (n < 0 || (size_t)n + 64 > sizeof(folder) || strlen(name) > 32) {
    return false;
  }
  if (make) {
    (void)mkdir(folder, 0700);
  }
  (void)snprintf(path, PATH_ROOM, "%.*s/ridge", n, folder);
  if (make) {
    (void)mkdir(path, 0700);
  }
  (void)snprintf(path, PATH_ROOM, "%.*s/ridge/%s", n, folder, name);
  return true;
}

/* -- Reading ----------------------------------------------------------------------------------- */

/* Up to n bytes, fewer at the end of the file; -1 where it cannot be read. */
static ssize_t read_some(int fd, char *into, size_t n)
{
  size_t got = 0;

  while (got < n) {
    ssize_t more = read(fd, into + got, n - got);

    if (more == 0) {
      break;
    }
    if (more < 0 && errno != EINTR) {
      return -1;
    }
    got += more > 0 ? (size_t)more : 0;
  }
  return (ssize_t)got;
}

char *rg_cache_read(const char *name, size_t most, size_t *bytes)
{
  char path[PATH_ROOM];
  struct stat facts;
  char *all = NULL;
  ssize_t got = -1;
  int fd = -1;

  if (path_of(name, false, path)) {
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a FIFO has no writer */
  }
  if (fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
      (uint64_t)facts.st_size <= most) {
    all = (char *)malloc((size_t)facts.st_size + 1);
  }
  if (all != NULL) {
    got =
        read_some(fd, all, (size_t)facts.st_size); /* what is added meanwhile is for the next one */
  }
  if (fd >= 0) {
    (void)close(fd);
  }
  if (got < 0) {
    free(all);
    return NULL;
  }
  all[got] = '\0';
  *bytes = (size_t)got;
  return all;
}

const char *rg_cache_line(const char **at, const char *end, size_t *n)
{
  const char *line = *at;
  const char *stop = line < end ? (const char *)memchr(line, '\n', (size_t)(end - line)) : NULL;

  if (stop == NULL) {
    return NULL;
  }
  *at = stop + 1;
  *n = (size_t)(stop - line);
  return line;
}

/* -- Writing ----------------------------------------------------------------------------------- */

/* Would opening it wait, or lead to no file at all? */
static bool is_no_file(const char *path)
{
  struct stat facts;

  return stat(path, &facts) == 0 &&
         (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || S_ISDIR(facts.st_mode));
}

bool rg_cache_write(const char *name, const rg_cache_piece *piece, int n)
{
  char path[PATH_ROOM];
  rg_output *output = NULL;
  rg_status status;

  if (!path_of(name, true, path) || is_no_file(path)) {
    return false;
  }
  status = rg_gpu->output_new(path, &output);
  for (int i = 0; i < n && status == RG_OK; i++) {
    status = rg_gpu->output_write(output, piece[i].data, (int64_t)piece[i].bytes);
  }
  if (status == RG_OK) {
    return rg_gpu->output_finish(output) == RG_OK;
  }
  rg_gpu->output_release(output);
  return false;
}

/* Does a file end within a line, as a full disk leaves it? */
static bool ends_within(const char *path, off_t size)
{
  char last = '\n';
  int fd = size > 0 ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;

  if (fd >= 0) {
    (void)!pread(fd, &last, 1, size - 1);
    (void)close(fd);
  }
  return last != '\n';
}

bool rg_cache_append(const char *name, const char *line, size_t most)
{
  const size_t n = strlen(line);
  char path[PATH_ROOM];
  char both[256];
  struct stat facts;
  bool done = false;
  int fd;

  if (!path_of(name, true, path) || is_no_file(path) || n + 2 > sizeof(both)) {
    return false;
  }
  fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  if (fd < 0) {
    return false;
  }
  if (fstat(fd, &facts) != 0) {
    (void)close(fd);
    return false;
  }
  if (S_ISREG(facts.st_mode) && (uint64_t)facts.st_size + n > most) {
    const rg_cache_piece piece = { line, n };

    done = rg_cache_write(name, &piece, 1);
  } else { /* in one call, so that lines of several processes do not mix */
    const int size =
        snprintf(both, sizeof(both), "%s%s",
                 S_ISREG(facts.st_mode) && ends_within(path, facts.st_size) ? "\n" : "", line);

    done = write(fd, both, (size_t)size) == size;
  }
  return close(fd) == 0 && done;
}

/* -- Checksums --------------------------------------------------------------------------------- */

uint64_t rg_hash(const void *data, size_t bytes, uint64_t h)
{
  for (size_t i = 0; i < bytes; i++) {
    h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
  }
  return h;
}
