-- SPDX-License-Identifier: MIT
--- A session: an environment that lives from line to line, the last values, and how a typed text is
--- run and its values are shown. It knows no terminal: text comes in, text goes out.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local command = require 'ridge.repl.command'
local environment = require 'ridge.repl.environment'
local inspect = require 'ridge.repl.inspect'
local missing = require 'ridge.repl.missing'
local parse = require 'ridge.repl.parse'
local report = require 'ridge.repl.report'
local state = require 'ridge.state'
local summary = require 'ridge.show.summary'
local types = require 'ridge.types'

local collectgarbage = collectgarbage -- nothing typed ends it

local M = {}
local Session = {}
Session.__index = Session

local KEPT = 64 * 2 ^ 20 -- bytes above which a value is not kept in _
local GARBAGE = 64 * 2 ^ 20 -- live bytes more than after the last collection: collect
local REMEMBERED = 200   -- typed texts kept for showing their lines in errors

---@class ridge.repl.SessionOptions
---@field write fun(text: string) where values go
---@field complain? fun(text: string) where errors go, the same place if not given
---@field call? function runs a function as host.call does; xpcall without Ctrl-C if not given
---@field bare? boolean strings are shown as they are, not quoted
---@field name? string names the chunks in messages, '[n]' if not given
---@field cells? boolean statements may end in an expression, whose values are shown
---@field shown? fun(n: integer, values: any[]) shows values, instead of their texts
---@field failed? fun(failure: ridge.repl.Report|nil) takes what went wrong, nil: a press of Ctrl-C,
---  instead of its text

local function plain_call(_, f, handler, ...)
  return xpcall(f, handler, ...)
end

--- A new session.
---@param opts ridge.repl.SessionOptions where output goes and how functions are run
---@return table session
function M.new(opts)
  local host = package.loaded['ridge.host']
  return setmetatable({
    env = environment.session(), count = 0,
    write = opts.write, complain = opts.complain,
    call = opts.call or (host and host.call) or plain_call,
    bare = opts.bare, name = opts.name, kind = opts.name and 'once' or 'session',
    cells = opts.cells, shown = opts.shown, on_failure = opts.failed,
    typed = {},
  }, Session)
end

--- While the user thinks: give back what is dead if it is much.
function Session:collect()
  local host = package.loaded['ridge.host']
  if not host or not host.live_bytes then return end
  local live, heap = host.live_bytes(), collectgarbage 'count'
  if live - (self.live or live) > GARBAGE or heap - (self.heap or heap) > 65536 then
    require('ridge.ffi.ref').collect()
    live, heap = host.live_bytes(), collectgarbage 'count'
    self.live, self.heap = live, heap
  end
  self.live, self.heap = self.live or live, self.heap or heap
end

--- Make a value the last one: _ is the newest, _1, _2, _3 the ones before it.
---@param value any not nil
function Session:keep(value)
  local bytes = types.bytes(value)
  if bytes > KEPT then
    self.write(colour.paint('dim', ('(%s: not kept in _)'):format(summary.bytes(bytes))) .. '\n')
    return
  end
  local env = self.env
  for i = 3, 1, -1 do
    local older = i == 1 and '_' or '_' .. (i - 1)
    rawset(env, '_' .. i, rawget(env, older))
  end
  rawset(env, '_', value)
end

local function results(kind, ...)
  if kind == 'expression' then return select('#', ...) - 1, { select(2, ...) } end
  return select('#', ...), { ... }
end

--- Run a compiled text in the session's environment.
---@param parsed ridge.repl.Parsed what to run
---@return integer n how many values it gave
---@return any[] values
function Session:values(parsed)
  setfenv(parsed.chunk, self.env)
  return results(parsed.kind, parsed.chunk())
end

--- Show values and keep the first as the last one.
---@param n integer how many
---@param values any[]
---@param text string what was typed: a `;` behind it keeps quiet
function Session:show(n, values, text)
  if n <= 0 then return end -- less: a return without values, in front of a last expression
  if not parse.silent(text) and self.shown then
    self.shown(n, values)
  elseif not parse.silent(text) then
    for i = 1, n do
      self.write(inspect.value(values[i], { width = summary.columns(), bare = self.bare }) .. '\n')
    end
  end
  if values[1] ~= nil then self:keep(values[1]) end
end

--- Run a function so that Ctrl-C ends it; say what went wrong.
---@param f function
---@param text string what was typed
---@return 'done'|'failed'|'interrupted' outcome
function Session:guarded(f, text)
  local mark = state.mark()
  local lines = package.loaded['ridge.lines']
  if lines then lines.again() end
  local ok, failure, interrupted = self.call(self.kind, f, report.catch)
  state.unwind(mark) -- what was cut off and what waits in a coroutine leaves nothing on
  if ok then return 'done' end
  if type(failure) ~= 'table' then collectgarbage() end -- memory was full: saying so takes some
  if interrupted then
    if self.on_failure then
      self.on_failure(nil)
    else
      self:say(colour.paint('error', 'interrupted'))
    end
    return 'interrupted'
  end
  self:fail(failure, text)
  return 'failed'
end
report.set_floor(Session.guarded)

--- Do what a line asks for that is no Lua.
---@param request ridge.repl.Request
---@param parsed ridge.repl.Parsed|nil the code behind it
---@param text string what was typed
---@return 'done'|'failed'|'interrupted' outcome
function Session:obey(request, parsed, text)
  request.parsed = parsed
  return self:guarded(function() command.run(self, request) end, text)
end

--- Run a typed text.
---@param text string what was typed so far
---@return 'done'|'incomplete'|'failed'|'interrupted' outcome
function Session:run(text)
  local request = command.read(text)
  local code = not request and text or request.takes == 'code' and request.rest or nil
  local name = self.name or ('[%d]'):format(self.count + 1)
  local parsed = code and parse.compile(code, '=' .. name, self.cells)
  if parsed and parsed.kind == 'incomplete' then
    self.message = parsed.message
    return 'incomplete'
  end
  self.count = self.count + 1
  report.remember(name, code)
  report.remember(('[%d]'):format(self.count - REMEMBERED), nil)
  if not text:find '^%s*$' then self.typed[#self.typed + 1] = text end
  if parsed and parsed.kind == 'error' then
    self:fail(report.syntax(parsed.message), text)
    return 'failed'
  end
  if request then return self:obey(request, parsed, text) end
  return self:guarded(function()
    local n, values = self:values(parsed)
    self:show(n, values, text)
  end, text)
end

--- A line for the user that is no value.
---@param line string without a newline
function Session:say(line)
  local write = self.complain or self.write
  write(line .. '\n')
end

--- Say what went wrong; the typed line is not repeated if it is the only one.
---@param failure any what `report.catch` made
---@param text string what was typed
function Session:fail(failure, text)
  if type(failure) ~= 'table' or not failure.frames then -- an error while handling an error
    failure = { message = tostring(failure), frames = {}, traceback = '' }
  end
  local frame = failure.frames[1]
  failure.message = failure.message .. missing.hint(failure.message, frame and frame.text, self.env)
  local short = not self.name and not text:find('\n', 1, true)
    and #failure.frames == 1 and failure.frames[1].place:find '^%[%d+%]:1$' ~= nil
  if self.on_failure then
    self.on_failure(failure)
  else
    self:say(report.text(failure, { one_line = short }))
  end
  self.failed = failure
end

--- Say that a text ended in the middle.
---@param text string what was typed
function Session:fail_incomplete(text)
  if self.name then report.remember(self.name, text) end -- not the text before it
  self:fail(report.syntax(self.message or 'the text ends in the middle'), text)
end

--- Run a file as if it were typed: its top-level locals stay as variables of the session. What is
--- wrong is raised.
---@param path string the file
---@param text string|nil what is in it, if it is known
function Session:execute(path, text)
  if not text then
    local file, reason = io.open(path, 'rb')
    text, reason = file and file:read '*a', reason or path .. ': it cannot be read'
    if file then file:close() end
    if not text then blame.raise(reason, 'EIO') end
  end
  local chunk, message = loadstring(require('ridge.repl.locals').keep((text:gsub('^#[^\n]*', ''))),
    '@' .. path)
  if not chunk then error(report.syntax(message), 0) end
  setfenv(chunk, self.env)
  chunk()
end

--- The same at the start of a session: what is wrong is said.
---@param path string the file
---@return boolean ok
function Session:load(path)
  return self:guarded(function() self:execute(path) end, '\n') == 'done'
end

return M
