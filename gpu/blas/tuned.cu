/* SPDX-License-Identifier: MIT */
/*
** The table of chosen algorithms, and its file: `$XDG_CACHE_HOME/ridge/cublaslt.txt`, or the same
** in ~/.cache.
**
** A line of the file is a key, an algorithm and a checksum of both, in hexadecimal words.  A line
** that is not exactly that is left out; one that is, but whose algorithm the library refuses, is
** found again.  The file is replaced as a whole, by a rename; what other processes wrote meanwhile
** is read first and stays in it.
*/
#include "gpu/blas/tuned.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

enum {
  ALGO_WORDS = sizeof(cublasLtMatmulAlgo_t) / 8,
  WORDS = RG_TUNED_FIELDS + ALGO_WORDS + 1, /* of a line */
  MOST = 1 << 16,                           /* entries; nobody's program has so many products */
  SAVE_EVERY = 32                           /* new ones; the others when the process ends */
};

static const char HEAD[] = "ridge cublasLt algorithms 1\n";

struct entry {
  rg_tuned_key key;
  cublasLtMatmulAlgo_t algo;
  int32_t state;
};

/* By open addressing; the size is a power of two and at least twice the number of entries. */
static entry *table;
static uint64_t size;
static uint64_t used;
static int32_t unsaved;
static std::mutex lock;

/* -- The table --------------------------------------------------------------------------------- */

/* FNV-1a, by words. */
static uint64_t hash(const uint64_t *word, int n)
{
  uint64_t h = 14695981039346656037u;

  for (int i = 0; i < n; i++) {
    for (int shift = 0; shift < 64; shift += 8) {
      h = (h ^ (word[i] >> shift & 0xff)) * 1099511628211u;
    }
  }
  return h;
}

/* The entry of a key, or the free one where it would be; NULL only where there is no table. */
static entry *place_of(const rg_tuned_key *key)
{
  uint64_t at = hash((const uint64_t *)key->field, RG_TUNED_FIELDS);

  if (size == 0) {
    return NULL;
  }
  while (table[at & (size - 1)].state != RG_TUNED_ABSENT &&
         memcmp(&table[at & (size - 1)].key, key, sizeof(*key)) != 0) {
    at++;
  }
  return &table[at & (size - 1)];
}

static bool grow(void)
{
  entry *old = table;
  uint64_t n = size;
  uint64_t more = size > 0 ? 2 * size : 256;
  entry *fresh = (entry *)calloc(more, sizeof(entry));

  if (fresh == NULL) {
    return false;
  }
  table = fresh;
  size = more;
  for (uint64_t i = 0; i < n; i++) {
    if (old[i].state != RG_TUNED_ABSENT) {
      *place_of(&old[i].key) = old[i];
    }
  }
  free(old);
  return true;
}

/* Without room it is forgotten, and found again at the next call. */
static void put(const rg_tuned_key *key, int32_t state, const cublasLtMatmulAlgo_t *algo)
{
  entry *e;

  if (2 * (used + 1) > size && (used >= MOST || !grow())) {
    return;
  }
  e = place_of(key);
  if (e->state == RG_TUNED_ABSENT) {
    used++;
  }
  e->key = *key;
  e->state = state;
  e->algo = algo != NULL ? *algo : cublasLtMatmulAlgo_t{};
}

/* -- The file ---------------------------------------------------------------------------------- */

/* The file's path; make: make its folders too.  False: there is none. */
static bool path_of(char *path, size_t room, bool make)
{
  const char *cache = getenv("XDG_CACHE_HOME");
#ifdef RG_SIM
  const char *home = NULL; /* tests leave nothing in the user's folder */
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
  if (n < 0 || (size_t)n + 64 > sizeof(folder) || (size_t)n + 64 > room) {
    return false;
  }
  if (make) {
    (void)mkdir(folder, 0700);
  }
  (void)snprintf(path, room, "%.*s/ridge", n, folder);
  if (make) {
    (void)mkdir(path, 0700);
  }
  (void)snprintf(path, room, "%.*s/ridge/cublaslt.txt", n, folder);
  return true;
}

/* A line as its words; false where it is anything else. */
static bool parse(const char *line, uint64_t *word)
{
  for (int i = 0; i < WORDS; i++) {
    uint64_t v = 0;

    for (int d = 0; d < 16; d++, line++) {
      int c = *line;
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

      if (digit < 0) {
        return false;
      }
      v = v << 4 | (uint64_t)digit;
    }
    word[i] = v;
    if (*line++ != (i + 1 < WORDS ? ' ' : '\n')) {
      return false;
    }
  }
  return *line == '\0' && hash(word, WORDS - 1) == word[WORDS - 1];
}

/* Take from the file what is not known yet. */
static void load(void)
{
  char path[4096];
  char line[17 * WORDS + 2];
  uint64_t word[WORDS];
  rg_tuned_key key;
  cublasLtMatmulAlgo_t algo;
  entry *e;
  FILE *file;

  if (!path_of(path, sizeof(path), false) || (file = fopen(path, "r")) == NULL) {
    return;
  }
  if (fgets(line, sizeof(line), file) != NULL && strcmp(line, HEAD) == 0) {
    for (int i = 0; i < 2 * MOST && fgets(line, sizeof(line), file) != NULL; i++) {
      if (parse(line, word)) {
        memcpy(&key, word, sizeof(key));
        memcpy(&algo, word + RG_TUNED_FIELDS, sizeof(algo));
        e = place_of(&key);
        if (e == NULL || e->state == RG_TUNED_ABSENT) {
          put(&key, RG_TUNED_LOADED, &algo);
        }
      }
    }
  }
  (void)fclose(file);
}

static bool write_all(FILE *file)
{
  uint64_t word[WORDS];
  bool ok = fputs(HEAD, file) >= 0;

  for (uint64_t i = 0; i < size && ok; i++) {
    if (table[i].state < RG_TUNED_BEST) {
      continue;
    }
    memcpy(word, &table[i].key, sizeof(table[i].key));
    memcpy(word + RG_TUNED_FIELDS, &table[i].algo, sizeof(table[i].algo));
    word[WORDS - 1] = hash(word, WORDS - 1);
    for (int w = 0; w < WORDS && ok; w++) {
      ok = fprintf(file, "%016llx%c", (unsigned long long)word[w], w + 1 < WORDS ? ' ' : '\n') > 0;
    }
  }
  return ok;
}

/* A file that cannot be written is no error: the algorithms are found again. */
static void save(void)
{
  char path[4096];
  char fresh[4128];
  FILE *file;
  bool ok;

  unsaved = 0;
  if (!path_of(path, sizeof(path), true)) {
    return;
  }
  load();
  (void)snprintf(fresh, sizeof(fresh), "%s.%ld", path, (long)getpid());
  file = fopen(fresh, "w");
  if (file == NULL) {
    return;
  }
  ok = write_all(file);
  ok = fclose(file) == 0 && ok;
  if (!ok || rename(fresh, path) != 0) {
    (void)unlink(fresh);
  }
}

static void save_at_exit(void)
{
  std::lock_guard<std::mutex> held(lock);

  if (unsaved > 0) {
    save();
  }
}

/* -- What others call -------------------------------------------------------------------------- */

int32_t rg_tuned_find(const rg_tuned_key *key, cublasLtMatmulAlgo_t *algo)
{
  static bool loaded;
  std::lock_guard<std::mutex> held(lock);
  const entry *e;

  if (!loaded) {
    loaded = true;
    load();
  }
  e = place_of(key);
  if (e == NULL) {
    return RG_TUNED_ABSENT;
  }
  *algo = e->algo;
  return e->state;
}

void rg_tuned_keep(const rg_tuned_key *key, int32_t state, const cublasLtMatmulAlgo_t *algo)
{
  static bool registered;
  std::lock_guard<std::mutex> held(lock);

  put(key, state, algo);
  if (state != RG_TUNED_BEST) {
    return;
  }
  if (!registered) {
    registered = true;
    (void)atexit(save_at_exit);
  }
  if (++unsaved >= SAVE_EVERY) {
    save();
  }
}
