/* SPDX-License-Identifier: MIT */
/*
** The line editor of the prompt: libedit, driven from C, so that completion runs through the
** classic Lua API and no FFI callback exists.
**
** It reads and writes through its own copies of the terminal's descriptors: io.stdin:close() typed
** at the prompt must not end the session.  While a line is read, the signals that stop or end the
** process first give the terminal back as they found it.
*/
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

static EditLine *editor; /* NULL in plain mode */
static History *entries;
static FILE *in, *out;
static lua_State *completing; /* the state that reads a line now */
static int complete_ref = LUA_NOREF;
static int was_interrupted;
static char prompt_text[64];

/* -- Signals while a line is read ------------------------------------------------ */

static const int caught[] = { SIGWINCH, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT };
enum { CAUGHT_COUNT = sizeof caught / sizeof caught[0] };
static struct sigaction before[CAUGHT_COUNT];
static volatile sig_atomic_t pending[CAUGHT_COUNT];

static void on_signal(int number)
{
  if (!rg_host_note(number)) return;
  for (int i = 0; i < CAUGHT_COUNT; i++) {
    if (caught[i] == number) pending[i] = 1;
  }
}

static void catch_signals(void)
{
  struct sigaction action;

  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK; /* a resize ends no write; keys end the wait anyhow */
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < CAUGHT_COUNT; i++)
    sigaction(caught[i], &action, &before[i]);
}

static void release_signals(void)
{
  for (int i = 0; i < CAUGHT_COUNT; i++)
    sigaction(caught[i], &before[i], NULL);
}

/* Let a signal do what it does, with the terminal as the shell wants it, and come back from it. */
static void handle_signals(EditLine *el)
{
  for (int i = 0; i < CAUGHT_COUNT; i++) {
    if (!pending[i]) continue;
    pending[i] = 0;
    if (caught[i] == SIGWINCH) {
      el_resize(el);
      continue;
    }
    el_set(el, EL_PREP_TERM, 0);
    release_signals();
    raise(caught[i]);
    catch_signals();
    el_set(el, EL_PREP_TERM, 1);
    el_set(el, EL_REFRESH);
  }
}

/* -- Reading keys ----------------------------------------------------------------- */

enum { CTRL_D = 4 };

/* Keys that were typed before the prompt, while the terminal was in its own line mode: a Ctrl-D
** among them is a zero byte by now. */
static int typed_ahead;

static void count_ahead(void)
{
  int n = 0;

  typed_ahead = ioctl(fileno(in), FIONREAD, &n) == 0 ? n : 0;
}

/* One character of the terminal, decoded; libedit's own reader loses a Ctrl-C. */
static int read_key(EditLine *el, wchar_t *key)
{
  static mbstate_t decoding;
  const int fd = fileno(in);

  for (;;) {
    char byte;
    size_t used;
    ssize_t n;

    switch (rg_host_wait(fd)) {
    case RG_WAIT_INTERRUPT:
      was_interrupted = 1;
      return -1;
    case RG_WAIT_SIGNAL:
      handle_signals(el);
      continue;
    case RG_WAIT_FAILED:
      return -1;
    default:
      break;
    }
    n = read(fd, &byte, 1);
    if (n == 0) return 0;
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return -1;
    }
    if (typed_ahead > 0) {
      typed_ahead--;
      if (byte == '\0') byte = CTRL_D;
    }
    used = mbrtowc(key, &byte, 1, &decoding);
    if (used == (size_t)-2) continue;
    if (used == (size_t)-1) {
      memset(&decoding, 0, sizeof decoding); /* not UTF-8: drop the byte */
      continue;
    }
    return 1;
  }
}

/* -- Completion ------------------------------------------------------------------- */

/*
** TAB: Lua's complete(before, after) gives the text to insert and, if there are several ways on, a
** list to show.
*/
static unsigned char complete(EditLine *el, int key)
{
  lua_State *L = completing;
  const LineInfo *line = el_line(el);
  const char *insert, *list;
  unsigned char result = CC_NORM;
  int top;

  (void)key;
  if (!L || complete_ref == LUA_NOREF) return CC_ERROR;
  top = lua_gettop(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, complete_ref);
  lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
  lua_pushlstring(L, line->cursor, (size_t)(line->lastchar - line->cursor));
  if (lua_pcall(L, 2, 2, 0) != 0) {
    lua_settop(L, top);
    return CC_ERROR;
  }
  insert = lua_tostring(L, -2);
  list = lua_tostring(L, -1);
  if (insert && *insert) {
    el_insertstr(el, insert);
    result = CC_REFRESH;
  }
  if (list) {
    fprintf(out, "\n%s\n", list);
    fflush(out);
    result = CC_REDISPLAY;
  } else if (result == CC_NORM) {
    result = CC_ERROR;
  }
  lua_settop(L, top);
  return result;
}

static char *prompt(EditLine *el)
{
  (void)el;
  return prompt_text;
}

/* -- The editor -------------------------------------------------------------------- */

static void bind_keys(void)
{
  static const char *const keys[][2] = {
    { "^I", "ridge-complete" },
    { "^R", "em-inc-search-prev" },
    { "^W", "ed-delete-prev-word" },
    { "^[[A", "ed-search-prev-history" },
    { "^[OA", "ed-search-prev-history" },
    { "^[[B", "ed-search-next-history" },
    { "^[OB", "ed-search-next-history" },
    { "^[[3~", "ed-delete-next-char" },
    { "^[[H", "ed-move-to-beg" },
    { "^[[F", "ed-move-to-end" },
    { "^[[1~", "ed-move-to-beg" },
    { "^[[4~", "ed-move-to-end" },
    { "^[[1;5C", "em-next-word" },
    { "^[[1;5D", "ed-prev-word" },
    { "^@", "ed-unassigned" }, /* Ctrl-Space: would take the next key as it is, Ctrl-C too */
  };
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
  }
}

static FILE *copy_of(int fd, const char *mode)
{
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

  return copy < 0 ? NULL : fdopen(copy, mode);
}

/*
** editor.open(plain): take the terminal; plain means no editing (no terminal, TERM=dumb).
** Returns true, or nil and the reason.
*/
static int editor_open(lua_State *L)
{
  HistEvent event;

  if (!in) in = copy_of(STDIN_FILENO, "r");
  if (!out) out = copy_of(STDOUT_FILENO, "w");
  if (!in || !out) {
    lua_pushnil(L);
    lua_pushfstring(L, "the terminal cannot be opened: %s", strerror(errno));
    return 2;
  }
  if (!lua_toboolean(L, 1) && !editor) {
    editor = el_init("ridge", in, out, stderr);
    entries = history_init();
    if (!editor || !entries) {
      lua_pushnil(L);
      lua_pushliteral(L, "the line editor could not be started");
      return 2;
    }
    history(entries, &event, H_SETSIZE, 10000);
    history(entries, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_PROMPT, prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, entries);
    el_set(editor, EL_GETCFN, read_key);
    el_set(editor, EL_ADDFN, "ridge-complete", "complete a name", complete);
    bind_keys();
    el_source(editor, NULL); /* the user's ~/.editrc has the last word */
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* A line without editing: prompt, bytes up to the newline. */
static int read_plain(lua_State *L)
{
  luaL_Buffer line;
  int any = 0;

  fputs(prompt_text, out);
  fflush(out);
  luaL_buffinit(L, &line);
  for (;;) {
    char byte;
    ssize_t n;
    const int why = rg_host_wait(fileno(in));

    if (why == RG_WAIT_INTERRUPT) {
      was_interrupted = 1;
      return 0;
    }
    if (why == RG_WAIT_SIGNAL) continue;
    n = read(fileno(in), &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0 && !any) return 0;
    if (n <= 0 || byte == '\n') break;
    any = 1;
    luaL_addlstring(&line, &byte, 1);
  }
  luaL_pushresult(&line);
  return 1;
}

/* A line from libedit, without its newline. */
static int read_edited(lua_State *L)
{
  const char *line;
  int n = 0;

  completing = L;
  catch_signals();
  /* before the prompt appears, not with the first key as libedit does it: keys that come in between
  ** would be read by the terminal's own line editing */
  el_set(editor, EL_PREP_TERM, 1);
  count_ahead();
  line = el_gets(editor, &n);
  release_signals();
  completing = NULL;
  if (was_interrupted || !line || n <= 0) return 0;
  if (line[n - 1] == '\n') n--;
  lua_pushlstring(L, line, (size_t)n);
  return 1;
}

/* editor.read(prompt): a line, or nil and "interrupted" or "end". */
static int editor_read(lua_State *L)
{
  int got;

  snprintf(prompt_text, sizeof prompt_text, "%s", luaL_checkstring(L, 1));
  if (!in || !out) return luaL_error(L, "the terminal is not open");
  fflush(stdout);
  rg_host_cut_off();
  rg_host_listen();
  was_interrupted = 0;
  got = editor ? read_edited(L) : read_plain(L);
  rg_host_cut_off();
  if (got) return 1;
  lua_pushnil(L);
  if (was_interrupted) {
    if (editor) el_reset(editor);
    lua_pushliteral(L, "interrupted");
  } else {
    lua_pushliteral(L, "end");
  }
  return 2;
}

/* editor.add(line): one entry of the history. */
static int editor_add(lua_State *L)
{
  HistEvent event;

  if (entries) history(entries, &event, H_ENTER, luaL_checkstring(L, 1));
  return 0;
}

/* editor.complete(f): f(before, after) answers TAB, see above. */
static int editor_complete(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_unref(L, LUA_REGISTRYINDEX, complete_ref);
  lua_settop(L, 1);
  complete_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* editor.write(text): to the terminal, behind whatever print has written. */
static int editor_write(lua_State *L)
{
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);

  fflush(stdout);
  if (out) {
    fwrite(text, 1, size, out);
    fflush(out);
  }
  rg_host_cut_off();
  return 0;
}

/* editor.close(): give the terminal back. */
static int editor_close(lua_State *L)
{
  (void)L;
  if (editor) el_end(editor);
  if (entries) history_end(entries);
  editor = NULL;
  entries = NULL;
  return 0;
}

FILE *rg_host_editor_stream(void)
{
  return out;
}

void rg_host_editor(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "open", editor_open },
    { "read", editor_read },
    { "add", editor_add },
    { "write", editor_write },
    { "complete", editor_complete },
    { "close", editor_close },
    { NULL, NULL },
  };
  lua_newtable(L);
  luaL_register(L, NULL, functions);
  lua_setfield(L, -2, "editor");
}
