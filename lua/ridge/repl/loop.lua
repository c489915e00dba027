-- SPDX-License-Identifier: MIT
--- The prompt: reads a line, asks for more while it is unfinished, runs it, shows the value.
--
-- Nothing typed ends it: each round runs protected, and what it calls between reading and running
-- are functions kept here, so that a session which has broken its own libraries still has a prompt.

local colour = require 'ridge.show.colour'
local complete = require 'ridge.repl.complete'
local history = require 'ridge.repl.history'
local host = require 'ridge.host'
local question = require 'ridge.repl.question'
local session = require 'ridge.repl.session'
local summary = require 'ridge.show.summary'
local unfinished = require 'ridge.repl.unfinished'

local M = {}

local SLOW = 0.050         -- seconds from which the time of a line is shown

local pcall, tostring = pcall, tostring

--- One line: the version, the device, how to get help.
local function banner()
  local cpu, threads, isa = host.machine()
  local parts = { 'ridge ' .. host.version, ('cpu %s, %d threads, %s'):format(cpu, threads, isa),
    '?help' }
  return table.concat(parts, ' · ')
end

--- Time and memory of a slow line, dim, at the right edge.
local function show_cost(write, seconds, bytes)
  if seconds < SLOW then return end
  local text = seconds < 1 and ('%.0f ms'):format(seconds * 1e3)
    or seconds < 100 and ('%.2f s'):format(seconds) or ('%.0f s'):format(seconds)
  if math.abs(bytes) >= 2 ^ 20 then
    text = text .. ' · ' .. (bytes > 0 and '+' or '-') .. summary.bytes(math.abs(bytes))
  end
  local pad = math.max(0, summary.columns() - colour.width(text) - 1)
  write((' '):rep(pad) .. colour.paint('dim', text) .. '\n')
end

---@class ridge.repl.LoopOptions
---@field terminal boolean input and output are a terminal
---@field quiet? boolean no banner
---@field session? table a session that goes on

local Loop = {}
Loop.__index = Loop

--- Run what is complete, or keep it until it is.
---@param line string what was typed
---@return boolean|nil ends true where it was exit or quit
function Loop:enter(line)
  local text = line
  if self.pending then
    text = self.pending:add(line)
    if not text then return end
  else
    local word = question.word(text, self.session.env)
    if word == 'help' then
      text = '?'
    elseif word then
      self:remember(text)
      return true
    end
    local found, reason = question.answer(text, self.session.env)
    if found or reason then
      self:remember(text)
      self.write((found or reason) .. '\n')
      return
    end
  end
  local started, live = host.seconds(), host.live_bytes()
  local outcome = self.session:run(text)
  if outcome == 'incomplete' then
    self.pending = self.pending or unfinished.new(text)
    return
  end
  self.pending = nil
  self:remember(text)
  if outcome == 'failed' then
    self.failed = true
    if self.terminal and not self.told then
      self.told = true
      self.write(colour.paint('dim', '(?name shows help, ?"words" searches it)') .. '\n')
    end
  end
  if self.terminal and not text:find '^%s*%%' then -- commands say themselves how long they took
    show_cost(self.write, host.seconds() - started, host.live_bytes() - live)
  end
end

--- Put an entry into the editor's history and the file.
---@param text string what was typed, all its lines
function Loop:remember(text)
  if not self.edited or text:find '^%s*$' then return end
  if text ~= self.last then
    host.editor.add(text)
    history.append(self.history_path, text)
  end
  self.last = text
end

--- What one line, or its absence, brings; false when the input has ended.
---@param line string|nil what was typed
---@param reason string|nil 'interrupted' or 'end' where there is no line
---@return boolean more
function Loop:round(line, reason)
  if line then return not self:enter(line) end
  if reason == 'interrupted' then
    self.pending = nil
    self.write '^C\n'
    return true
  end
  if self.pending then
    local text = self.pending:text()
    if self.session:run(text) == 'incomplete' then self.session:fail_incomplete(text) end
    self.failed = true
  end
  if self.prompt then self.write '\n' end
  return false
end

--- Make the editor ready; falls back to plain lines, saying so, where it cannot be started.
---@return boolean ready false where nothing can be read at all, which it says, too
function Loop:open()
  local plain = not self.terminal or os.getenv 'TERM' == 'dumb' or not os.getenv 'TERM'
  local ok, reason = host.editor.open(plain)
  if not ok and not plain then
    io.stderr:write('ridge: ', reason, '; lines are read without editing\n')
    plain = true
    ok, reason = host.editor.open(true)
  end
  if not ok then
    io.stderr:write('ridge: ', reason, '\n')
    return false
  end
  self.edited = not plain
  self.write = host.editor.write
  if not self.edited then return true end
  self.history_path = history.path()
  for _, entry in ipairs(history.read(self.history_path)) do host.editor.add(entry) end
  host.editor.complete(function(before, after)
    return complete.tab(before, after, self.session.env)
  end)
  return true
end

--- Read and run until the input ends.
---@param opts ridge.repl.LoopOptions what the terminal is
---@return integer status 0; 1 if input that is no terminal held an error, or cannot be read
function M.run(opts)
  local loop = setmetatable({ terminal = opts.terminal, prompt = opts.terminal }, Loop)
  if not loop:open() then return 1 end
  loop.session = opts.session or session.new { write = loop.write }
  loop.session.write = loop.write
  if opts.terminal and not opts.quiet then loop.write(colour.paint('dim', banner()) .. '\n') end
  host.ignore_pipes()
  local read, write, round = host.editor.read, host.editor.write, loop.round
  local collect = loop.session.collect
  local lost = host.lost
  local fresh, further = loop.prompt and '>> ' or '', loop.prompt and '.. ' or ''
  while true do
    local ok, more = pcall(round, loop, read(loop.pending and further or fresh))
    if not ok then
      loop.pending = nil
      pcall(write, 'error: ' .. tostring(more) .. '\n')
    elseif not more or not loop.terminal and lost() then
      break -- the input has ended, or nobody hears
    end
    pcall(collect, loop.session)
  end
  host.editor.close()
  return (loop.failed and not opts.terminal) and 1 or 0
end

return M
