/* SPDX-License-Identifier: MIT */
/*
** The allocator: size classes, reuse, exact counters, limit, refusals, structs that are
** kept, the heap below it, two threads at once.
*/
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "blocks.h"
#include "ridge/budget.h"
#include "ridge/graph.h"
#include "tap.h"
#include "tensor/tensor.h"

static const rg_memory *memory;

/* -- Size classes ---------------------------------------------------------------- */

static void test_classes(void)
{
  bool aligned = true;
  bool wide = true;
  bool tight = true;

  for (int64_t bytes = 0; bytes < 3 << 20; bytes = bytes < 5000 ? bytes + 1 : bytes * 9 / 8 + 1) {
    int64_t least = bytes < 1 ? 1 : bytes;
    int64_t before;
    int64_t size;
    rg_block block;

    rg_memory_trim(RG_CPU);
    before = memory->reserved_bytes;
    block = take(bytes);
    size = memory->reserved_bytes - before;
    aligned = aligned && block.data != NULL && (uintptr_t)block.data % 64 == 0;
    wide = wide && size >= least && size % 64 == 0;
    tight = tight && (least <= 1024 ? size < least + 64 : size <= least + least / 8 + 128);
    memset(block.data, 1, (size_t)size);
    rg_block_free(&block);
  }
  ok(aligned, "blocks are on 64 bytes");
  ok(wide, "and as large as asked for");
  ok(tight, "with less than 64 bytes more up to 1 KB, then at most an eighth");
}

static void test_reuse(void)
{
  rg_block a;
  rg_block b;
  void *was;
  int64_t reserved;

  rg_memory_trim(RG_CPU);
  a = take(1000);
  was = a.data;
  reserved = memory->reserved_bytes;
  rg_block_free(&a);
  ok(a.data == NULL, "a freed block is forgotten");
  rg_block_free(&a);
  is_int(memory->reserved_bytes, reserved, "its memory stays cached");
  a = take(970);
  ok(a.data == was, "and serves the next block of its class");
  b = take(1000);
  ok(b.data != was, "but only one at a time");
  rg_block_free(&a);
  rg_block_free(&b);
  is_int(rg_memory_trim(RG_CPU), 2 * 1024, "trim gives both back");
  is_int(rg_memory_trim(RG_CPU), 0, "once");
}

/* -- Counters -------------------------------------------------------------------- */

static void test_counters(void)
{
  rg_memory before;
  rg_block a;
  rg_block b;

  rg_memory_trim(RG_CPU);
  rg_memory_reset_peak(RG_CPU);
  before = *memory;
  a = take(100);
  b = take(5000);
  is_int(memory->live_bytes - before.live_bytes, 5100, "live counts what was asked for");
  is_int(memory->reserved_bytes - before.reserved_bytes, 128 + 5120, "reserved what was taken");
  is_int(memory->n_blocks - before.n_blocks, 2, "two blocks");
  is_int(memory->n_requests - before.n_requests, 2, "two requests");
  is_int(memory->debt_bytes - before.debt_bytes, 5100, "debt grows by what was allocated");
  rg_block_free(&b);
  is_int(memory->live_bytes - before.live_bytes, 100, "live falls");
  is_int(memory->peak_bytes - before.live_bytes, 5100, "its peak does not");
  is_int(memory->debt_bytes - before.debt_bytes, 100, "the debt is what is left to collect");
  rg_memory_reset_peak(RG_CPU);
  is_int(memory->peak_bytes, memory->live_bytes, "until it is reset");
  rg_block_free(&a);
  rg_memory_trim(RG_CPU);
  is_int(memory->peak_reserved_bytes - before.reserved_bytes, 128 + 5120,
         "the peak of what was reserved");
  is_int(memory->live_bytes, before.live_bytes, "all is back");
  is_int(memory->n_blocks, before.n_blocks, "to the last block");
  ok(rg_memory_of(1) == NULL && rg_memory_of(-1) == NULL, "other devices have no counters");
  rg_memory_reset_peak(1);
  is_int(rg_memory_trim(5), 0, "and nothing to give back");
}

/* What others than the collector free is no debt of its. */
static void test_debt(void)
{
  rg_memory *m = rg_memory_of(RG_CPU);
  int64_t before = m->debt_bytes;
  rg_block a = take(1000);
  rg_block b = take(1000);
  rg_block c = take(300);

  m->debt_bytes = 1200;
  rg_block_free(&a);
  is_int(m->debt_bytes, 200, "what is freed is not owed");
  rg_block_free(&b);
  is_int(m->debt_bytes, 0, "and gives no credit");
  m->debt_bytes = 500;
  rg_memory_collects = true;
  rg_block_free(&c);
  rg_memory_collects = false;
  is_int(m->debt_bytes, 500, "what a collector frees pays nothing");
  b = take(1000);
  m->debt_bytes = 1500;
  m->freed_bytes = 0;
  m->is_watched = 1;
  rg_block_free(&b);
  is_int(m->debt_bytes, 1500, "debt of who watches grows whatever is freed");
  is_int(m->freed_bytes, 1000, "which is counted");
  m->is_watched = 0;
  m->freed_bytes = 0;
  rg_memory_trim(RG_CPU);
  m->debt_bytes = before;
}

static void test_limit(void)
{
  rg_block a;
  rg_block b = { 0 };
  char *message;

  is_status(rg_memory_set_limit(RG_CPU, -1), RG_EARG, "no negative limit");
  is_status(rg_memory_set_limit(1, 100), RG_EDEVICE, "no limit on a device that is not there");
  is_status(rg_memory_set_limit(RG_CPU, memory->live_bytes + 3000000), RG_OK, "3 MB more");
  a = take(2000000);
  is_status(rg_block_alloc(RG_CPU, 1000001, &b), RG_ENOMEM, "one byte above the limit is refused");
  message = strdup(rg_error_message());
  ok(strstr(message, "limit of") != NULL, "by name");
  free(message);
  ok(b.data == NULL, "and nothing is written");
  is_status(rg_block_alloc(RG_CPU, 1000000, &b), RG_OK, "up to it is not");
  rg_block_free(&a);
  rg_block_free(&b);
  is_status(rg_memory_set_limit(RG_CPU, 0), RG_OK, "without a limit");
  a = take(4000000);
  ok(a.data != NULL, "there is more");
  rg_block_free(&a);
}

/* On the CPU the limit is for what is live: what is cached is nobody's, and does not count. */
static void test_limit_cached(void)
{
  rg_block a;
  rg_block b;
  int64_t cached;

  rg_memory_trim(RG_CPU);
  a = take(8000000);
  rg_block_free(&a);
  cached = memory->reserved_bytes;
  ok(cached >= 8000000, "a block of 8 MB is cached");
  is_status(rg_memory_set_limit(RG_CPU, memory->live_bytes + 3000000), RG_OK, "3 MB more");
  a = take(2000000);
  ok(a.data != NULL, "2 MB of another class are had beside it");
  is_int(memory->live_bytes + 1000000, memory->limit_bytes, "and leave 1 MB");
  is_status(rg_block_alloc(RG_CPU, 8000000, &b), RG_ENOMEM, "the cached block is above the limit");
  rg_block_free(&a);
  is_status(rg_memory_set_limit(RG_CPU, memory->live_bytes + 8000000), RG_OK, "8 MB");
  cached = memory->reserved_bytes;
  a = take(8000000);
  ok(a.data != NULL, "and now it is not");
  is_int(memory->reserved_bytes, cached, "the cached one is taken");
  rg_block_free(&a);
  is_status(rg_memory_set_limit(RG_CPU, 0), RG_OK, "without a limit");
}

/* Shifted blocks are whole, aligned, elsewhere by a seed, and given back as they were taken. */
static void test_shift(void)
{
  static const int64_t sizes[] = { 64, 4096, 300000, 1 << 20, 5000000 };
  int64_t reserved;
  int s;

  rg_memory_trim(RG_CPU);
  reserved = memory->reserved_bytes;
  for (s = 0; s < (int)(sizeof(sizes) / sizeof(sizes[0])); s++) {
    enum { N = 24 };
    rg_block blocks[N];
    uint64_t places = 0;
    int distinct = 0;
    int i;

    rg_memory_shift((uint64_t)s + 1);
    for (i = 0; i < N; i++) {
      uint64_t line;

      if (i == N / 2) {
        rg_memory_shift(0); /* those of both kinds go back side by side */
      }
      blocks[i] = take(sizes[s]);
      memset(blocks[i].data, i, (size_t)sizes[s]);
      line = ((uint64_t)blocks[i].data & 4095u) / 64;
      distinct += i < N / 2 && (places >> line & 1) == 0;
      places |= (uint64_t)1 << line;
      ok(((uintptr_t)blocks[i].data & 63u) == 0, "aligned to a line");
    }
    /* of 12 draws from 64 places fewer than 6 different ones: once in millions */
    ok(distinct >= 6, "blocks begin at different lines of a page");
    for (i = 0; i < N; i++) {
      ok(*(unsigned char *)blocks[i].data == i &&
             ((unsigned char *)blocks[i].data)[sizes[s] - 1] == i,
         "nobody else wrote to it");
      rg_block_free(&blocks[i]);
    }
    rg_memory_trim(RG_CPU);
    is_int(memory->reserved_bytes, reserved, "all of it is given back");
  }
}

static void test_sizes(void)
{
  static const int64_t bad[] = { -1,
                                 INT64_MIN,
                                 INT64_MAX,
                                 (int64_t)1 << 60,
                                 (int64_t)1 << 48,
                                 ((int64_t)1 << 48) + 1,
                                 (int64_t)1 << 46 };
  rg_memory before = *memory;
  rg_block block = { 0 };

  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    is_status(rg_block_alloc(RG_CPU, bad[i], &block), RG_ENOMEM, "a size nobody has is refused");
  }
  ok(block.data == NULL, "nothing is written");
  is_int(memory->live_bytes, before.live_bytes, "nothing is counted");
  is_status(rg_block_alloc(3, 64, &block), RG_EDEVICE, "nor is there another device");
  is_status(rg_block_alloc(-1, 64, &block), RG_EDEVICE, "or one below all");
}

/* -- Refusal at every point ------------------------------------------------------ */

/* Tensors, a view, a scope and a capture: everything that allocates between base and graph. */
static rg_status work(void)
{
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_generator *generator = NULL;
  int32_t depth = rg_scope_enter();
  rg_status status = rg_empty(RG_F32, RG_CPU, (int64_t[]){ 3, 4 }, 2, &x);

  if (status == RG_OK) {
    status = rg_transpose(x, 0, 1, &y);
  }
  if (status == RG_OK) {
    status = rg_generator_new(1, &generator);
  }
  if (status == RG_OK) {
    status = rg_capture_begin();
  }
  if (status == RG_OK) {
    rg_tensor_release(y);
    y = NULL;
    status = rg_empty(RG_F64, RG_CPU, (int64_t[]){ 100 }, 1, &y);
    rg_capture_cancel();
  }
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_generator_release(generator);
  rg_scope_leave(depth);
  return status;
}

static void test_refusals(void)
{
  rg_memory before = *memory;
  int64_t tensors = rg_live_tensors();
  rg_status status = RG_ENOMEM;
  bool clean = true;
  bool named = true;
  int n = 0;

  while (status != RG_OK && n < 100) {
    rg_alloc_fail_at(++n);
    status = work();
    rg_alloc_fail_at(0);
    named = named && (status == RG_OK || status == RG_ENOMEM);
    clean = clean && memory->live_bytes == before.live_bytes &&
            memory->n_blocks == before.n_blocks && rg_live_tensors() == tensors &&
            rg_scope_depth() == 0 && !rg_capturing();
  }
  printf("# %d allocations were refused in turn\n", n - 1);
  ok(status == RG_OK && n > 8, "with no allocation left to refuse it works");
  ok(named, "every refusal comes back as RG_ENOMEM");
  ok(clean, "and leaves nothing behind");
}

/* RIDGE_ALLOC_FAIL in a process of its own: 3 is the exit status of a refusal. */
static void test_environment(void)
{
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  int status = -1;
  pid_t child;

  path[n > 0 ? n : 0] = 0;
  child = fork();
  if (child == 0) {
    setenv("RIDGE_ALLOC_FAIL", "1", 1);
    execl(path, path, "refused", (char *)NULL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  ok(WIFEXITED(status) && WEXITSTATUS(status) == 3, "RIDGE_ALLOC_FAIL refuses the first");
}

/* -- Two threads ----------------------------------------------------------------- */

enum { ROUNDS = 300000, HELD = 32 };

static pthread_barrier_t begin;

/* Take and free at random; a block that two hold would lose its mark.  Returns NULL if none did. */
static void *hammer(void *seed)
{
  uint64_t x = (uint64_t)(uintptr_t)seed;
  rg_block held[HELD] = { 0 };
  unsigned char mark = (unsigned char)x;
  void *bad = NULL;

  pthread_barrier_wait(&begin);
  for (int i = 0; i < ROUNDS; i++) {
    rg_block *block;

    x = x * 6364136223846793005u + 1442695040888963407u;
    block = &held[x >> 40 & (HELD - 1)];
    if (block->data != NULL) {
      const unsigned char *bytes = block->data;

      bad = bytes[0] != mark || bytes[block->bytes - 1] != mark ? seed : bad;
      rg_block_free(block);
    } else if (rg_block_alloc(RG_CPU, (int64_t)(x >> 50 & 4095) + 1, block) == RG_OK) {
      memset(block->data, mark, (size_t)block->bytes);
    } else {
      bad = seed;
    }
  }
  for (int i = 0; i < HELD; i++) {
    rg_block_free(&held[i]);
  }
  return bad;
}

static void test_threads(void)
{
  pthread_t threads[2];
  rg_memory before = *memory;

  pthread_barrier_init(&begin, NULL, 2);
  for (uintptr_t i = 0; i < 2; i++) {
    pthread_create(&threads[i], NULL, hammer, (void *)(i + 1));
  }
  for (int i = 0; i < 2; i++) {
    void *bad;

    pthread_join(threads[i], &bad);
    ok(bad == NULL, "every block was one thread's alone");
  }
  pthread_barrier_destroy(&begin);
  is_int(memory->live_bytes, before.live_bytes, "live is exact after two threads");
  is_int(memory->n_blocks, before.n_blocks, "so is the number of blocks");
}

/* -- The heap below -------------------------------------------------------------- */

/* What a training step does: small structures, all freed before the next.  glibc would give the
** top of the heap back and ask for it again each time. */
static void test_heap(void)
{
  static void *block[64];
  char *top = NULL;
  int moved = 0;

  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < 64; i++) {
      block[i] = rg_host_alloc(16 << 10);
    }
    moved += round > 0 && (char *)sbrk(0) != top;
    top = (char *)sbrk(0);
    for (int i = 0; i < 64; i++) {
      rg_host_free(block[i]);
    }
    moved += (char *)sbrk(0) != top;
  }
  is_int(moved, 0, "the heap's end stays while a megabyte comes and goes");
}

/* -- Structs that are kept ------------------------------------------------------------------ */

enum { LARGEST = 8192, MANY = 4096 };

static void test_structs(void)
{
  static void *many[MANY];
  bool wide = true;
  bool same = true;
  size_t before;
  size_t kept;

  /* each size follows a smaller one of its list, which may have left a block there */
  for (size_t bytes = 1; bytes <= LARGEST + 600; bytes++) {
    char *a = rg_struct_alloc(bytes);
    char *b = rg_struct_alloc(bytes);

    wide = wide && malloc_usable_size(a) >= bytes && malloc_usable_size(b) >= bytes && a != b;
    memset(a, 1, bytes);
    memset(b, 2, bytes);
    wide = wide && a[0] == 1 && a[bytes - 1] == 1;
    rg_struct_free(b, bytes);
    rg_struct_free(a, bytes);
    if (bytes <= LARGEST) {
      char *again = rg_struct_alloc(bytes);

      same = same && again == a;
      rg_struct_free(again, bytes);
    }
  }
  ok(wide, "a struct has the bytes that were asked for");
#ifdef __SANITIZE_ADDRESS__
  (void)same;
  (void)before;
  (void)kept;
  for (int i = 0; i < MANY; i++) {
    many[i] = rg_struct_alloc(1024);
  }
  for (int i = 0; i < MANY; i++) {
    rg_struct_free(many[i], 1024);
  }
#else
  ok(same, "and is the one that was freed last, up to 8 KB");
  before = mallinfo2().uordblks;
  for (int i = 0; i < MANY; i++) {
    many[i] = rg_struct_alloc(1024);
  }
  for (int i = 0; i < MANY; i++) {
    rg_struct_free(many[i], 1024);
  }
  kept = mallinfo2().uordblks - before;
  ok(kept > 1 << 19 && kept < (1 << 20) + (1 << 17), "of 4 MB in one size a megabyte is kept");
#endif
}

/* A struct that was freed is the next one of its size, and none of another. */
static void test_same_struct(void)
{
  static const size_t sizes[][2] = { { 1, 64 }, { 65, 128 }, { 129, 192 }, { 449, 512 } };

  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    for (int end = 0; end < 2; end++) {
      char *kept = rg_struct_alloc(sizes[i][end]);
      char *other = NULL;
      char *again = NULL;

      kept[sizes[i][end] - 1] = 1;
      rg_struct_free(kept, sizes[i][end]);
#ifndef __SANITIZE_ADDRESS__ /* keeps none */
      other = rg_struct_alloc(i < 3 ? sizes[i][1] + 1 : 384);
      again = rg_struct_alloc(sizes[i][1 - end]);
      ok(again == kept && other != kept, "kept for the next one of its size");
      rg_struct_free(again, sizes[i][1 - end]);
      rg_struct_free(other, i < 3 ? sizes[i][1] + 1 : 384);
#else
      (void)other, (void)again;
#endif
    }
  }
}

/* What a thread may still ask for: large and small requests count alike, what is refused takes
** nothing, and what is given back gives nothing. */
static void test_budget(void)
{
  rg_block a, b;

  is_int(rg_memory_budget(1000), -1, "there was no budget");
  is_status(rg_block_alloc(RG_CPU, 600, &a), RG_OK, "within it");
  is_status(rg_block_alloc(RG_CPU, 401, &b), RG_ENOMEM, "beyond what is left");
  ok(strstr(rg_error_message(), "would pass the budget") != NULL, "says so");
  is_status(rg_block_alloc(RG_CPU, 400, &b), RG_OK, "and took nothing");
  rg_block_free(&a);
  rg_block_free(&b);
  is_status(rg_block_alloc(RG_CPU, 1, &a), RG_ENOMEM, "what is given back does not count");
  is_int(rg_memory_budget(-5), 0, "nothing is left");
  is_status(rg_block_alloc(RG_CPU, 2000, &a), RG_OK, "without one there is no bound");
  rg_block_free(&a);
  is_int(rg_memory_budget(-1), -1, "as before");
}

int main(int argc, char **argv)
{
  memory = rg_memory_of(RG_CPU);
  if (argc > 1 && strcmp(argv[1], "refused") == 0) {
    rg_block block;

    return rg_block_alloc(RG_CPU, 64, &block) == RG_ENOMEM ? 3 : 4;
  }
  test_refusals(); /* ends what RIDGE_ALLOC_FAIL began */
  test_heap();     /* before larger blocks raise glibc's bounds by themselves */
  test_classes();
  test_reuse();
  test_counters();
  test_debt();
  test_limit();
  test_limit_cached();
  test_budget();
  test_shift();
  test_sizes();
  test_environment();
  test_threads();
  test_structs();
  test_same_struct();
  is_int(memory->live_bytes, 0, "no memory is left");
  return done();
}
