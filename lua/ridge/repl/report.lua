-- SPDX-License-Identifier: MIT
--- An error for people: the message, the user's line with its text, the lines that led there. The
--- whole traceback only with RIDGE_TRACE=full.
--
-- `report.catch` is the message handler: it runs where the error happened and keeps the frames that
-- are the user's, with what their lines say.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local inspect = require 'ridge.repl.inspect'
local plain = require 'ridge.plain'
local types = require 'ridge.types'

local M = {}

local CALLERS = 3 -- lines shown that led to the one where it happened
local LOCALS = 40 -- locals kept of a frame
local HEAVY = 2 ^ 20 -- bytes above which a local is not kept

local Report = {} -- the metatable of what `catch` and `syntax` make

local typed = {} -- what was typed at the prompt, by the name of its chunk

--- Keep the text of a typed chunk, so that its lines can be shown.
---@param name string the chunk's name without '='
---@param text string|nil what was typed; nil forgets it
function M.remember(name, text)
  typed[name] = text
end

--- The text of a typed chunk; nil where it is not kept any more.
---@param name string the chunk's name without '='
---@return string|nil text
function M.typed(name)
  return typed[name]
end

local function line_of(text, number)
  local n = 0
  for line in (text .. '\n'):gmatch '(.-)\n' do
    n = n + 1
    if n == number then return line:match '^%s*(.-)%s*$' end
  end
  return nil
end

--- What stands at a line of a chunk, or nil.
local function text_at(source, number)
  if source:sub(1, 1) == '=' and typed[source:sub(2)] then
    return line_of(typed[source:sub(2)], number)
  end
  local path = source:match '^@(.*)'
  local file = path and io.open(path, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text and line_of(text, number)
end

local floor -- the function below which frames are not the user's, see `set_floor`

--- Name the function that runs typed chunks: frames below it belong to whoever runs the session.
---@param f function a function that calls the chunk
function M.set_floor(f)
  floor = f
end

---@class ridge.repl.Report
---@field message string what is wrong
---@field frames {place: string, text: string|nil, locals: table|nil}[] the user's lines, the
---  innermost first
---@field traceback string all frames
---@field code string|nil a status name without RG_

--- The locals of a stack level; what holds much is named only, so that an error keeps no memory.
local function locals_of(level)
  local list = {}
  for i = 1, LOCALS do
    local name, value = debug.getlocal(level, i)
    if not name then break end
    if name:sub(1, 1) ~= '(' then
      local bytes = types.bytes(value)
      if bytes > HEAVY then value = ('%s of %d bytes'):format(type(value), bytes) end
      list[#list + 1] = { name = name, value = value }
    end
  end
  return list
end

--- The frames that are the user's, from a stack level on.
local function user_frames(level)
  local frames = {}
  while #frames <= CALLERS do
    local info = debug.getinfo(level, 'Slf')
    if not info or info.func == floor then break end
    if info.what ~= 'C' and info.currentline > 0 and not blame.is_own(info.source) then
      frames[#frames + 1] = {
        place = info.short_src .. ':' .. info.currentline,
        text = text_at(info.source, info.currentline),
        locals = locals_of(level + 1),
      }
    end
    level = level + 1
  end
  return frames
end

--- The message without the position in front that Lua has put there, and that position.
local function split(message)
  local place, rest = message:match '^([^\n]-:%d+): (.*)$'
  if place then return rest, place end
  return message, nil
end

local function describe(err)
  if blame.is_error(err) or (type(err) == 'table' and type(rawget(err, 'message')) == 'string') then
    return err.message, err.where
  end
  if type(err) == 'string' then return split(err) end
  if err == nil then return 'an error without a value (nil was raised)' end
  return inspect.value(err)
end

--- Message handler for xpcall and host.call: the error as a report.
---@param err any what was raised
---@return ridge.repl.Report report
function M.catch(err)
  if getmetatable(err) == Report then return err end -- raised again
  local message, where = describe(err)
  local report = setmetatable({
    message = message,
    frames = user_frames(3),
    traceback = debug.traceback('', 2):gsub('^\n', ''),
    code = type(err) == 'table' and rawget(err, 'code') or nil,
    value = err,
  }, Report)
  -- Raised at the line of a caller: what that had called did not lead there.
  local first = report.frames[1]
  for k = 2, where and first and first.place ~= where and #report.frames or 0 do
    if report.frames[k].place == where then
      for _ = 2, k do table.remove(report.frames, 1) end
      break
    end
  end
  -- An error of a coroutine or one that was raised again: its line is not on this stack.
  if where and (not report.frames[1] or report.frames[1].place ~= where) then
    local path, number = where:match '^(.*):(%d+)$'
    local source = path and (typed[path] and '=' .. path or '@' .. path)
    if source and not blame.is_own(source) then
      table.insert(report.frames, 1, { place = where, text = text_at(source, tonumber(number)) })
    elseif source then
      report.message = where .. ': ' .. message -- inside ridge: the position is a fact of its own
    end
  end
  return report
end

--- A report of a message of the compiler.
---@param message string what loadstring said
---@return ridge.repl.Report report
function M.syntax(message)
  local rest, where = split(message)
  local path, number = (where or ''):match '^(.*):(%d+)$'
  local frames = {}
  if path then
    local source = typed[path] and '=' .. path or '@' .. path
    frames[1] = { place = where, text = text_at(source, tonumber(number)) }
  end
  return setmetatable({ message = rest, frames = frames, traceback = '' }, Report)
end

--- Whether whole tracebacks are wanted.
---@return boolean full
function M.wants_trace()
  local host = package.loaded['ridge.host']
  local setting = host and host.settings and host.settings.trace or os.getenv 'RIDGE_TRACE'
  return setting == 'full'
end

--- The report as lines.
---@param report ridge.repl.Report what `catch` made
---@param opts? {one_line: boolean} one_line: the place is the typed line itself, do not repeat it
---@return string text without a newline at the end
function M.text(report, opts)
  local lines = { colour.paint('error', 'error: ') .. plain.text(report.message) }
  local frames = report.frames
  if not (opts and opts.one_line and #frames <= 1) then
    for i, frame in ipairs(frames) do
      local lead = i == 1 and '   at ' or '   from '
      lines[#lines + 1] = lead .. plain.line(frame.place)
        .. (frame.text and colour.paint('dim', '  ' .. plain.line(frame.text)) or '')
      if i > CALLERS then break end
    end
  end
  if M.wants_trace() and report.traceback ~= '' then
    lines[#lines + 1] = colour.paint('dim', plain.text(report.traceback))
  end
  return table.concat(lines, '\n')
end

return M
