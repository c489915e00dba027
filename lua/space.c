/* SPDX-License-Identifier: MIT */
/*
** Is there address space for OpenBLAS?  While it is loaded it asks for a block for each thread, and
** where a limit (ulimit -v, ulimit -d) denies one it asks again for ever: the program would hang
** before main.  So the program looks first: what stands in .preinit_array runs before the first
** library begins.  Libraries have no such place: in another program libridge.so comes too late.
*/
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* BUFFER_SIZE of OpenBLAS 0.3 (32 << 22), and what malloc takes besides. */
static const size_t block = ((size_t)128 << 20) + 16384;

/* What sanitizers keep of their own has not begun. */
#define EARLY __attribute__((no_sanitize("address", "undefined", "thread")))

EARLY static int is_limited(int resource)
{
  struct rlimit limit;

  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Threads that OpenBLAS of the OpenMP kind counts on: OMP_NUM_THREADS, at most the processors. */
EARLY static size_t count_threads(char **environment)
{
  static const char name[] = "OMP_NUM_THREADS=";
  cpu_set_t given;
  long n = sched_getaffinity(0, sizeof(given), &given) == 0 ? CPU_COUNT(&given) : 1;

  for (char **at = environment; *at != NULL; at++) {
    if (strncmp(*at, name, sizeof(name) - 1) == 0) {
      const long asked = strtol(*at + sizeof(name) - 1, NULL, 10);

      n = asked > 0 && asked < n ? asked : n;
    }
  }
  return n > 0 ? (size_t)n : 1;
}

/* libc has not begun either: its own list of variables is not there yet. */
EARLY static void look_for_space(int argc, char **argv, char **environment)
{
  char text[320];
  const int address = is_limited(RLIMIT_AS);

  (void)argc;
  (void)argv;
  if (!address && !is_limited(RLIMIT_DATA)) return;
  const size_t n = count_threads(environment);
  void *trial = mmap(NULL, n * block, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  if (trial != MAP_FAILED) {
    munmap(trial, n * block);
    return;
  }
  const int length =
      snprintf(text, sizeof(text),
               "ridge: OpenBLAS takes %zu MB of address space as it is loaded, 128 MB for each of "
               "%zu thread%s, and ulimit -%c leaves less: raise it%s\n",
               n * (block >> 20), n, n == 1 ? "" : "s", address ? 'v' : 'd',
               n == 1 ? "" : ", or set OMP_NUM_THREADS=1");

  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(2);
  _exit(1);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const begin)(int argc, char **argv,
                                                 char **environment) = look_for_space;
