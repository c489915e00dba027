-- SPDX-License-Identifier: MIT
--- A session: an environment that lives from line to line, the last values, and how a typed text is
-- run and its values are shown. It knows no terminal: text comes in, text goes out.

local colour = require 'ridge.show.colour'
local environment = require 'ridge.repl.environment'
local inspect = require 'ridge.repl.inspect'
local parse = require 'ridge.repl.parse'
local report = require 'ridge.repl.report'
local summary = require 'ridge.show.summary'
local types = require 'ridge.types'

local M = {}
local Session = {}
Session.__index = Session

local KEPT = 64 * 2 ^ 20 -- bytes above which a value is not kept in _
local REMEMBERED = 200   -- typed texts kept for showing their lines in errors

---@class ridge.repl.SessionOptions
---@field write fun(text: string) where values go
---@field complain? fun(text: string) where errors go, the same place if not given
---@field call? function runs a function as host.call does; xpcall without Ctrl-C if not given
---@field bare? boolean strings are shown as they are, not quoted
---@field name? string names the chunks in messages, '[n]' if not given

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
  }, Session)
end

--- Bytes a value holds, as far as that can be known.
local function bytes_of(value)
  if type(value) == 'string' then return #value end
  local entry = types.of(value)
  if entry and entry.properties.bytes then
    local ok, bytes = pcall(function() return value.bytes end)
    return ok and tonumber(bytes) or 0
  end
  return 0
end

--- Make a value the last one: _ is the newest, _1, _2, _3 the ones before it.
---@param value any not nil
function Session:keep(value)
  local bytes = bytes_of(value)
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

--- Run the chunk and show what it gives; all of it may be ended by Ctrl-C.
---@param parsed ridge.repl.Parsed what to run
---@param silent boolean show nothing
function Session:evaluate(parsed, silent)
  local n, values = results(parsed.kind, parsed.chunk())
  if n == 0 then return end
  for i = 1, n do
    if not silent then
      self.write(inspect.value(values[i], { width = summary.columns(), bare = self.bare }) .. '\n')
    end
  end
  if values[1] ~= nil then self:keep(values[1]) end
end
report.set_floor(Session.evaluate)

--- Run a typed text.
---@param text string what was typed so far
---@return 'done'|'incomplete'|'failed'|'interrupted' outcome
function Session:run(text)
  local name = self.name or ('[%d]'):format(self.count + 1)
  local parsed = parse.compile(text, '=' .. name)
  if parsed.kind == 'incomplete' then
    self.message = parsed.message
    return 'incomplete'
  end
  self.count = self.count + 1
  report.remember(name, text)
  report.remember(('[%d]'):format(self.count - REMEMBERED), nil)
  if parsed.kind == 'error' then
    self:fail(report.syntax(parsed.message), text)
    return 'failed'
  end
  setfenv(parsed.chunk, self.env)
  local silent = parse.silent(text)
  local ok, failure, interrupted = self.call(self.kind, function()
    return self:evaluate(parsed, silent)
  end, report.catch)
  if ok then return 'done' end
  if interrupted then
    self:say(colour.paint('error', 'interrupted'))
    return 'interrupted'
  end
  self:fail(failure, text)
  return 'failed'
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
  local short = not self.name and not text:find('\n', 1, true)
    and #failure.frames == 1 and failure.frames[1].place:find '^%[%d+%]:1$' ~= nil
  self:say(report.text(failure, { one_line = short }))
  self.failed = failure
end

--- Say that a text ended in the middle.
---@param text string what was typed
function Session:fail_incomplete(text)
  self:fail(report.syntax(self.message or 'the text ends in the middle'), text)
end

--- Run a file as if it were typed: its top-level locals stay as variables of the session.
---@param path string the file
---@return boolean ok
function Session:load(path)
  local file, reason = io.open(path, 'rb')
  if not file then
    self:fail({ message = reason, frames = {}, traceback = '' }, '')
    return false
  end
  local text = file:read '*a':gsub('^#[^\n]*', '')
  file:close()
  local chunk, message = loadstring(require('ridge.repl.locals').keep(text), '@' .. path)
  if not chunk then
    self:fail(report.syntax(message), '\n')
    return false
  end
  setfenv(chunk, self.env)
  local ok, failure, interrupted = self.call('session', chunk, report.catch)
  if not ok and interrupted then
    self:say(colour.paint('error', 'interrupted'))
  elseif not ok then
    self:fail(failure, '\n')
  end
  return ok
end

return M
