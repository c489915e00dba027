-- SPDX-License-Identifier: MIT
-- SQLite through its own C API: connections, cached statements, rows as tables, transactions.
--
-- The library is loaded when the first database is opened, never before. Every failure is an error
-- object whose text names the file, the statement and SQLite's own code. Statements and connections
-- free themselves when they are collected, and at once by close(). What keeps several processes
-- apart is ridge.store.lock: one flock around every write transaction and every checkpoint, which
-- also removes by construction the checkpoint race of SQLite 3.7.0 to 3.51.2.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local guard = require 'ridge.guard'
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local libraries = require 'ridge.ffi.library'
local lock = require 'ridge.store.lock'
local place = require 'ridge.store.place'
local question = require 'ridge.store.question'

ffi.cdef [[
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
const char *sqlite3_libversion(void);
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close_v2(sqlite3 *);
int sqlite3_db_config(sqlite3 *, int, ...);
int sqlite3_extended_result_codes(sqlite3 *, int);
int sqlite3_extended_errcode(sqlite3 *);
int sqlite3_busy_handler(sqlite3 *, void *, void *);
int sqlite3_busy_timeout(sqlite3 *, int);
int sqlite3_get_autocommit(sqlite3 *);
int sqlite3_changes(sqlite3 *);
int64_t sqlite3_last_insert_rowid(sqlite3 *);
const char *sqlite3_errmsg(sqlite3 *);
const char *sqlite3_errstr(int);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
int sqlite3_clear_bindings(sqlite3_stmt *);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_bind_parameter_count(sqlite3_stmt *);
int sqlite3_bind_null(sqlite3_stmt *, int);
int sqlite3_bind_int64(sqlite3_stmt *, int, int64_t);
int sqlite3_bind_double(sqlite3_stmt *, int, double);
int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, intptr_t);
int sqlite3_bind_blob(sqlite3_stmt *, int, const char *, int, intptr_t);
int sqlite3_set_authorizer(sqlite3 *, void *, void *);
int sqlite3_limit(sqlite3 *, int, int);
void sqlite3_progress_handler(sqlite3 *, int, void *, void *);
int sqlite3_column_count(sqlite3_stmt *);
const char *sqlite3_column_name(sqlite3_stmt *, int);
int sqlite3_column_type(sqlite3_stmt *, int);
int64_t sqlite3_column_int64(sqlite3_stmt *, int);
double sqlite3_column_double(sqlite3_stmt *, int);
const void *sqlite3_column_blob(sqlite3_stmt *, int);
int sqlite3_column_bytes(sqlite3_stmt *, int);
]]

local OK, ROW, DONE = 0, 100, 101
local OPEN_READONLY, OPEN_READWRITE, OPEN_CREATE, OPEN_URI = 0x1, 0x2, 0x4, 0x40
local CONFIG_NO_CKPT_ON_CLOSE = 1006
local INTEGER, FLOAT, TEXT, BLOB = 1, 2, 3, 4
local TRANSIENT = -1 -- SQLite copies the bytes before bind returns
local EXACT = 2 ^ 53

-- Commits between two checkpoints: the log stays below a few megabytes.
local CHECKPOINT_EVERY = 64

-- Statements kept prepared; beyond it all are let go, which only programs that make up SQL reach.
local CACHED = 200

-- What the primary codes mean for whoever has to do something about it.
local MEANING = {
  [5]  = { 'SQLITE_BUSY', 'EIO', 'another program holds it locked' },
  [6]  = { 'SQLITE_LOCKED', 'EIO', 'it is locked by another statement' },
  [7]  = { 'SQLITE_NOMEM', 'ENOMEM', 'out of memory' },
  [8]  = { 'SQLITE_READONLY', 'EIO', 'it is read-only' },
  [9]  = { 'SQLITE_INTERRUPT', 'EINTR', 'interrupted' },
  [10] = { 'SQLITE_IOERR', 'EIO', 'reading or writing failed' },
  [11] = { 'SQLITE_CORRUPT', 'EFORMAT', 'the file is damaged; keep a copy and try '
    .. '`sqlite3 FILE .recover`' },
  [13] = { 'SQLITE_FULL', 'EIO', 'the disk is full; what was saved is '
    .. 'safe, and the same command goes on when there is space' },
  [14] = { 'SQLITE_CANTOPEN', 'EIO', 'it cannot be opened' },
  [18] = { 'SQLITE_TOOBIG', 'EARG', 'a text or a blob is longer than is allowed here: 16 MB in a '
    .. 'question' },
  [19] = { 'SQLITE_CONSTRAINT', 'EARG', 'a rule of the schema is broken' },
  [23] = { 'SQLITE_AUTH', 'EARG', 'questions are read-only: SELECT, and what tells' },
  [26] = { 'SQLITE_NOTADB', 'EFORMAT', 'it is not a database' },
}

-- A wait for a lock that Ctrl-C ended (core/base/sql.c).
local WAIT_ENDED = { 'SQLITE_BUSY', 'EINTR', 'interrupted while another program holds it locked' }

local M, lib = {}, nil

local function library()
  if lib then return lib end
  local why
  lib, why = libraries.open('libsqlite3.so.0', 'sqlite3')
  return lib or blame.raise('SQLite is not installed (Debian: libsqlite3-0): ' .. why, 'ENOSUP')
end

--- SQLite's version, "3.40.1"; loads the library.
---@return string version
function M.version() return ffi.string(library().sqlite3_libversion()) end

-- Values -------------------------------------------------------------------------------------

local Blob = {}

--- Mark bytes to be stored as BLOB; other strings are TEXT.
---@param bytes string
---@return table blob
function M.blob(bytes) return setmetatable({ bytes = bytes }, Blob) end

-- A statement's name in messages is its opening comment, else its first words.
local function name_of(sql)
  return sql:match '^%s*/%*%s*(.-)%s*%*/' or sql:gsub('%s+', ' '):match '^%s*(.-)%s*$':sub(1, 60)
end

-- Connections --------------------------------------------------------------------------------

local Database = {}
Database.__index = Database

local function fail(self, code, name)
  -- a request to stop between two rows is no word of SQLite's
  local said = self.handle ~= nil and lib.sqlite3_extended_errcode(self.handle) % 256 == code % 256
  local detail = ffi.string(said and lib.sqlite3_errmsg(self.handle) or lib.sqlite3_errstr(code))
  if detail:find 'parser stack overflow' or detail:find 'Expression tree is too large' then
    blame.raise('the question has more operations or brackets inside one another than SQLite takes',
      'EARG')
  end
  local known = MEANING[code % 256] or detail:find '^not authorized' and MEANING[23]
  if code % 256 == 5 and C.rg_interrupt_pending() ~= 0 then known = WAIT_ENDED end
  local label = known and known[1] or ('SQLite code %d'):format(code)
  blame.raise(('%s: %s%s (%s, extended code %d, in "%s")'):format(self.path,
    known and known[3] .. ': ' or '', detail, label, code, name), known and known[2] or 'EIO')
end

local function live(self, name)
  if self.handle == nil then
    blame.raise(('%s was closed; "%s" needs it open'):format(self.path, name), 'EARG')
  end
end

local function release_statements(self)
  for sql, statement in pairs(self.statements) do
    lib.sqlite3_finalize(ffi.gc(statement.handle, nil))
    self.statements[sql] = nil
  end
  self.n_statements = 0
end

-- A statement of its own, which nobody keeps.
local function compile(self, sql, name)
  live(self, name)
  local slot, tail = ffi.new 'sqlite3_stmt *[1]', ffi.new 'const char *[1]'
  local code = lib.sqlite3_prepare_v2(self.handle, sql, #sql, slot, tail)
  if code ~= OK then fail(self, lib.sqlite3_extended_errcode(self.handle), name) end
  local handle = ffi.gc(slot[0], lib.sqlite3_finalize)
  if handle == nil then blame.raise('no SQL statement in "' .. name .. '"', 'EARG') end
  if ffi.string(tail[0]):find '%S' then
    lib.sqlite3_finalize(ffi.gc(handle, nil))
    blame.raise('more than one SQL statement in "' .. name .. '": one at a time', 'EARG')
  end
  return { handle = handle, name = name, n = lib.sqlite3_bind_parameter_count(handle) }
end

local function prepare(self, sql)
  local statement = self.statements[sql]
  if statement then return statement end
  statement = compile(self, sql, name_of(sql))
  if self.n_statements == CACHED then release_statements(self) end
  self.statements[sql], self.n_statements = statement, self.n_statements + 1
  return statement
end

local function bind_one(handle, i, value)
  local kind = type(value)
  if kind == 'number' then
    if value == math.floor(value) and value > -EXACT and value < EXACT then
      return lib.sqlite3_bind_int64(handle, i, value)
    end
    return lib.sqlite3_bind_double(handle, i, value)
  elseif kind == 'string' then
    return lib.sqlite3_bind_text(handle, i, value, #value, TRANSIENT)
  elseif kind == 'nil' then
    return lib.sqlite3_bind_null(handle, i)
  elseif kind == 'boolean' then
    return lib.sqlite3_bind_int64(handle, i, value and 1 or 0)
  elseif getmetatable(value) == Blob then
    return lib.sqlite3_bind_blob(handle, i, value.bytes, #value.bytes, TRANSIENT)
  end
  return nil
end

local function bind(self, statement, n, ...)
  if n ~= statement.n then
    blame.raise(('"%s" takes %d values, got %d'):format(statement.name, statement.n, n), 'EARG')
  end
  for i = 1, n do
    local value = select(i, ...)
    local code = bind_one(statement.handle, i, value)
    if not code then
      blame.raise(('"%s": value %d is a %s; numbers, text, booleans, nil and blobs can be stored')
        :format(statement.name, i, type(value)), 'EARG')
    elseif code ~= OK then
      fail(self, code, statement.name)
    end
  end
end

local function column(handle, i)
  local kind = lib.sqlite3_column_type(handle, i)
  if kind == INTEGER then return tonumber(lib.sqlite3_column_int64(handle, i)) end
  if kind == FLOAT then return lib.sqlite3_column_double(handle, i) end
  if kind == TEXT or kind == BLOB then
    local bytes = lib.sqlite3_column_blob(handle, i) -- TEXT comes as UTF-8; NULL when empty
    return bytes == nil and '' or ffi.string(bytes, lib.sqlite3_column_bytes(handle, i))
  end
  return nil
end

local function step(self, statement)
  local code = lib.sqlite3_step(statement.handle)
  if code == ROW then return true end
  if code == DONE then return false end
  code = lib.sqlite3_extended_errcode(self.handle)
  local ok, err = pcall(fail, self, code, statement.name)
  lib.sqlite3_reset(statement.handle)
  lib.sqlite3_clear_bindings(statement.handle)
  error(not ok and err, 0)
end

local function finish(statement)
  lib.sqlite3_reset(statement.handle)
  lib.sqlite3_clear_bindings(statement.handle)
end

local function start(self, sql, ...)
  local statement = prepare(self, sql)
  live(self, statement.name)
  finish(statement)
  bind(self, statement, select('#', ...), ...)
  return statement
end

-- Read at each query: SQLite prepares a statement again when a view has changed.
-- Two of one name, as a join has them, are id and id:1, since rows are tables by name.
local function columns_of(statement)
  local columns, seen = {}, {}
  for i = 1, lib.sqlite3_column_count(statement.handle) do
    local name = ffi.string(lib.sqlite3_column_name(statement.handle, i - 1))
    local own, n = name, 0
    while seen[own] do
      n = n + 1
      own = ('%s:%d'):format(name, n)
    end
    columns[i], seen[own] = own, true
  end
  return columns
end

local function fetch(statement, columns)
  local row = {}
  for i = 1, #columns do row[columns[i]] = column(statement.handle, i - 1) end
  return row
end

local function all(statement, self)
  local rows, columns = {}, nil
  while step(self, statement) do
    columns = columns or columns_of(statement)
    rows[#rows + 1] = fetch(statement, columns)
  end
  return rows, columns or columns_of(statement)
end

--- All rows of a query, each a table keyed by column name; NULL is absent.
---@param sql string one statement; an opening comment is its name in error messages
---@param ... any one value for each `?`
---@return table rows
---@return string[] columns their names, in the query's order
function Database:query(sql, ...)
  local statement = start(self, sql, ...)
  local rows, columns = all(statement, self)
  finish(statement)
  return rows, columns
end

-- Steps of SQLite's machine between two looks at a request to stop: about a millisecond.
local LOOK_EVERY = 50000

-- Call a function whose queries Ctrl-C ends.
local function stoppable(self, f, ...)
  lib.sqlite3_progress_handler(self.handle, LOOK_EVERY, C.rg_sql_stop, nil)
  local ok, rows, columns = pcall(f, self, ...)
  if self.handle ~= nil then lib.sqlite3_progress_handler(self.handle, 0, nil, nil) end
  if not ok then error(rows, 0) end
  return rows, columns
end

--- Call a function, in which Ctrl-C ends whatever is asked or changed; a transaction around it is
--- rolled back then.
---@param fn function
---@return any result its first one
function Database:stops(fn)
  live(self, 'stops')
  return (stoppable(self, fn))
end

--- Copy the database, under a name that the copy gets only when it is whole; Ctrl-C ends it.
---@param path string
---@param part string|nil the name until then; one of this process, no file of the user's
function Database:copy(path, part)
  part = part or ('%s.ridge-%d.part'):format(path, clock.pid())
  local function clear() os.remove(part) os.remove(part .. '-journal') end
  clear() -- a journal would be played back
  local ok, err = pcall(self.stops, self, function()
    self:run('/* copy */ VACUUM INTO ?', part)
    assert(os.rename(part, path))
  end)
  if not ok then clear() error(err, 0) end
end

--- As `query`, for somebody who waits to see the rows: Ctrl-C ends it.  Not for what has to come
--- to its end, as saving does.
---@param sql string a SELECT
---@param ... any one value for each `?`
---@return table rows
---@return string[] columns
function Database:look(sql, ...)
  live(self, name_of(sql))
  return stoppable(self, self.query, sql, ...)
end

-- SQLite looks at Ctrl-C between two steps of its machine, and a function is one step however long
-- its texts are: printf('%.*c', 2000000000, 'x'), instr(a, b). So the rows come on a thread that is
-- left where it does not come back (core/base/sql_rows.c), and the connection with it. In questions
-- no text is longer than 16 MB and no pattern than 4 kB: 0 is SQLITE_LIMIT_LENGTH, 8
-- SQLITE_LIMIT_LIKE_PATTERN_LENGTH.
local LIMITS = { [0] = 2 ^ 24, [8] = 2 ^ 12 }

-- Set limits; what they were before.
local function limit(self, limits)
  local before = {}
  for id, n in pairs(limits) do before[id] = lib.sqlite3_limit(self.handle, id, n) end
  return before
end

--- All rows of a statement, from a thread: Ctrl-C ends it whatever SQLite does in it.
---@param sql string
---@return table rows as of `query`; whole numbers beyond 2^53 as int64_t
---@return string[] columns
-- Raises EINTR where Ctrl-C ended it; the connection may be closed then.
function Database:aside(sql)
  live(self, name_of(sql))
  local statement = compile(self, sql, name_of(sql))
  local ok, rows, columns = pcall(function()
    bind(self, statement, 0)
    local found, names, code = question.rows(lib, self, statement, columns_of)
    if code ~= DONE then fail(self, code, statement.name) end
    return found, names
  end)
  -- at once: it holds a view of the file, and whoever leaves the connection drops all of them
  if self.handle ~= nil then lib.sqlite3_finalize(ffi.gc(statement.handle, nil)) end
  if not ok then error(rows, 0) end
  return rows, columns
end

--- All rows of a question that somebody typed: SQLite itself refuses whatever does not only read
--- (core/base/sql.c), and Ctrl-C ends it.
---@param sql string one SELECT, or a PRAGMA that tells
---@return table rows as of `query`; whole numbers beyond 2^53 as int64_t
---@return string[] columns
-- Raises EARG for a statement that would write, attach or make anything, EINTR where Ctrl-C ended
-- it; the connection may be closed then.
function Database:ask(sql)
  live(self, name_of(sql))
  lib.sqlite3_set_authorizer(self.handle, C.rg_sql_authorize, nil)
  local before = limit(self, LIMITS)
  local ok, rows, columns = pcall(self.aside, self, sql)
  if self.handle ~= nil then
    lib.sqlite3_set_authorizer(self.handle, nil, nil)
    limit(self, before)
  end
  if not ok then error(rows, 0) end
  return rows, columns
end

--- The first row of a query, or nil when there is none.
---@param sql string
---@param ... any
---@return table|nil row
function Database:row(sql, ...)
  local statement = start(self, sql, ...)
  local row = step(self, statement) and fetch(statement, columns_of(statement)) or nil
  finish(statement)
  return row
end

--- The first column of the first row, or nil.
---@param sql string
---@param ... any
---@return any value
function Database:value(sql, ...)
  local statement = start(self, sql, ...)
  local value = nil
  if step(self, statement) then value = column(statement.handle, 0) end
  finish(statement)
  return value
end

--- Run a statement for its effect.
---@param sql string
---@param ... any
---@return integer changes rows changed
function Database:run(sql, ...)
  local statement = start(self, sql, ...)
  while step(self, statement) do end -- rows of a RETURNING clause nobody asked for
  finish(statement)
  return lib.sqlite3_changes(self.handle)
end

--- Insert one row and return its rowid.
---@param into string table name
---@param values table column name to value
---@return integer id
function Database:insert(into, values)
  local names = {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  local row = {}
  for i, name in ipairs(names) do row[i] = values[name] end
  self:run(('/* insert %s */ INSERT INTO %s(%s) VALUES(%s)'):format(into, into,
    table.concat(names, ','), ('?'):rep(#names, ',')), unpack(row, 1, #names))
  return tonumber(lib.sqlite3_last_insert_rowid(self.handle))
end

--- Run a script of several statements without values.
---@param sql string
---@param name string|nil what messages call it
function Database:exec(sql, name)
  name = name or name_of(sql)
  live(self, name)
  local slot, tail = ffi.new 'sqlite3_stmt *[1]', ffi.new 'const char *[1]'
  local text, at = ffi.cast('const char *', sql), 0
  while at < #sql do
    if lib.sqlite3_prepare_v2(self.handle, text + at, #sql - at, slot, tail) ~= OK then
      fail(self, lib.sqlite3_extended_errcode(self.handle), name)
    end
    at = tail[0] - text
    if slot[0] ~= nil then
      local handle = ffi.gc(slot[0], lib.sqlite3_finalize)
      local statement = { handle = handle, name = name }
      local ok, err = pcall(function() while step(self, statement) do end end)
      lib.sqlite3_finalize(ffi.gc(handle, nil))
      if not ok then error(err, 0) end
    end
  end
end

-- Transactions -------------------------------------------------------------------------------

-- Not so where SQLite has rolled back after an error (full disk, I/O), nor where the connection was
-- left in a question.
local function is_begun(self)
  return self.handle ~= nil and lib.sqlite3_get_autocommit(self.handle) == 0
end

local function rollback(self)
  if is_begun(self) then self:run 'ROLLBACK' end
end

--- Write what the log holds into the file; the caller holds the lock.
local function checkpoint(self, mode)
  self.commits = 0
  self:run('/* checkpoint */ PRAGMA wal_checkpoint(' .. mode .. ')')
end

--- Run a function inside a write transaction under the database's lock.
-- An error rolls everything back and goes on to the caller unchanged.
-- >> db:transaction(function() db:insert('meta', { key = 'a', value = 'b' }) end)
---@param fn function
---@param after function|nil run when all is written, still under the lock
---@return any ... what the function returned
function Database:transaction(fn, after)
  live(self, 'begin')
  if not self.lock then
    blame.raise(self.path .. ' is open for reading only', 'EARG')
  end
  if self.inside then
    blame.raise(self.path .. ': a transaction inside a transaction', 'EARG')
  end
  self.lock:take()
  self.inside = true
  local function body(...) -- keeps nil results apart from missing ones
    self:run '/* commit */ COMMIT'
    self.commits = self.commits + 1
    return select('#', ...), { ... }
  end
  local ok, n, results = pcall(function()
    self:run '/* begin */ BEGIN IMMEDIATE'
    return body(fn())
  end)
  if not ok then pcall(rollback, self) end
  self.inside = false
  local kept, reason = true, nil
  if ok and after then kept, reason = pcall(after) end
  if ok and kept and self.commits >= CHECKPOINT_EVERY then
    kept, reason = pcall(checkpoint, self, 'PASSIVE')
  end
  self.lock:drop()
  if not ok then error(n, 0) end
  if not kept then error(reason, 0) end
  return unpack(results, 1, n)
end

--- Run a function all of whose queries see one state of the file, whoever writes meanwhile.
---@param fn function
---@return any result its first one
function Database:snapshot(fn)
  live(self, 'begin reading')
  if is_begun(self) then return fn() end
  self:run '/* begin reading */ BEGIN'
  local ok, result = pcall(fn)
  if is_begun(self) then self:run '/* end reading */ COMMIT' end
  if not ok then error(result, 0) end
  return result
end

--- Close the connection; the writer's log is written into the file first. Twice does nothing.
function Database:close()
  if self.handle == nil then
    if self.lock then self.lock:close() end -- of a connection that was left
    return
  end
  if self.lock and not self.inside then
    -- neither a full disk nor Ctrl-C before or in the wait for another writer keeps the connection
    -- open: the log holds everything and is read next time
    pcall(function()
      if C.rg_interrupt_pending() == 0 then
        self.lock:take()
      elseif not self.lock:try() then
        return
      end
      lib.sqlite3_busy_timeout(self.handle, 1000) -- a reader may be a question left for hours
      checkpoint(self, 'TRUNCATE')
    end)
    self.lock:drop()
  end
  release_statements(self)
  local handle = self.handle
  self.handle = nil
  lib.sqlite3_close_v2(ffi.gc(handle, nil))
  if self.lock then self.lock:close() end
end

-- Opening ------------------------------------------------------------------------------------

local function uri(path)
  return 'file:' .. path:gsub('[^%w/._~-]', function(c) return ('%%%02X'):format(c:byte()) end)
    .. '?immutable=1'
end

--- Open a database file as it is; `store.open` is what checks whose file it is.
---@param path string
---@param mode string 'write' (made when missing), 'read', or 'frozen': a file nobody can change
---@return table db query, row, value, run, insert, exec, transaction, close
function M.open(path, mode)
  library()
  local self = setmetatable({ path = path, statements = {}, n_statements = 0,
    commits = 0, inside = false }, Database)
  local slot = ffi.new 'sqlite3 *[1]'
  local flags = mode == 'write' and OPEN_READWRITE + OPEN_CREATE or OPEN_READONLY
  if mode == 'write' then self.lock = lock.open(path .. '.lock') end
  local name = mode == 'frozen' and uri(path) or path
  if mode == 'frozen' then flags = flags + OPEN_URI end
  local code = lib.sqlite3_open_v2(name, slot, flags, nil)
  self.handle = ffi.gc(slot[0], lib.sqlite3_close_v2)
  place.connect(self, path)
  if code ~= OK then
    local _, err = pcall(fail, self, code, 'open')
    self.lock = self.lock and self.lock:close()
    self:close()
    error(err, 0)
  end
  lib.sqlite3_extended_result_codes(self.handle, 1)
  lib.sqlite3_busy_handler(self.handle, C.rg_sql_wait, nil)
  lib.sqlite3_db_config(self.handle, CONFIG_NO_CKPT_ON_CLOSE, ffi.cast('int', 1),
    ffi.cast('int *', nil))
  return self
end

guard.all(Database)

return M
