-- SPDX-License-Identifier: MIT
--- The progress of a sweep on standard error; standard output carries data only.
--
-- On a terminal one line is redrawn in place: done of total, time left, the point under way,
-- failures by cause; above it, where the terminal has colours and room, the map as it fills in
-- (live). Elsewhere a plain line at each tenth, at most every 30 s, so that a log stays readable.
-- `RIDGE_PROGRESS` is off, plain, bar or live. Drawing happens between timed regions only.

local clock = require 'ridge.store.clock'
local colour = require 'ridge.show.colour'
local ffi = require 'ffi'
local plain = require 'ridge.plain'

ffi.cdef [[
int rg_progress_isatty(int) __asm__("isatty");
int rg_progress_ioctl(int, unsigned long, ...) __asm__("ioctl");
]]

local TIOCGWINSZ = 0x5413
local STDERR = 2

-- Seconds over which the rate is averaged, between plain lines, between redraws, and between looks
-- at the whole sweep.
local MEMORY, PLAIN_EVERY, REDRAW_EVERY, LOOK_EVERY = 30, 30, 0.1, 2

local M = {}

local Progress = {}
Progress.__index = Progress

--- How large the terminal is.
---@param fd integer|nil 2, standard error, when left out
---@return table size lines, columns; 24 and 80 where nobody says
function M.size(fd)
  local size = ffi.new 'unsigned short[4]'
  local ok = ffi.C.rg_progress_ioctl(fd or STDERR, ffi.cast('unsigned long', TIOCGWINSZ), size) == 0
  return { lines = ok and size[0] > 0 and size[0] or 24, columns = ok and size[1] > 0 and size[1]
    or 80 }
end

local function width() return M.size().columns end

local function style(given)
  if given == false then return 'off' end
  local wanted = type(given) == 'string' and given or os.getenv 'RIDGE_PROGRESS'
  if wanted == 'off' or wanted == 'plain' or wanted == 'bar' or wanted == 'live' then
    return wanted
  end
  return colour.moves(ffi.C.rg_progress_isatty(STDERR) == 1) and 'live' or 'plain'
end

--- Begin to show a sweep.
---@param name string
---@param counts table trials by state, and total
---@param options table|nil style ('off', 'plain', 'bar', 'live', false), out (has write), now (a
---  function), width (columns), view (gives the lines above the bar), work (gives how far its
---  passes are, of ridge.store.queue.work); by default standard error as it is
---@return table progress
function M.new(name, counts, options)
  options = options or {}
  local self = setmetatable({ name = name, out = options.out or io.stderr,
    now = options.now or clock.seconds, columns = options.width, style = style(options.style),
    total = counts.total, done = 0, failed = {}, n_failed = 0, shown = 0, height = 0,
    ask = options.work }, Progress)
  if self.style == 'live' then self.style, self.view = 'bar', options.view end
  for state, n in pairs(counts) do
    if state ~= 'total' and state ~= 'pending' and state ~= 'running' then
      self.done = self.done + n
      self:fail(state, n)
    end
  end
  self.work = self.ask and self.ask() or nil
  self.began, self.first = self.now(), self.done
  self.last, self.rate, self.plain_at, self.drawn_at = self.began, nil, nil, nil
  self.tenth = self:share()
  return self
end

-- Tenths that are done: of the passes, where there are several.
function Progress:share()
  local work = self.work
  local done, total = work and work.done or self.done, work and work.total or self.total
  return math.floor(done / math.max(total, 1) * 10)
end

--- Count failures of a cause; states that are no failures are ignored.
---@param state string
---@param n integer
function Progress:fail(state, n)
  if state == 'ok' or state == 'infeasible' then return end
  self.failed[state] = (self.failed[state] or 0) + n
  self.n_failed = self.n_failed + n
end

--- 75 s as "1:15", an hour as "1:00:00".
---@param s number seconds
---@return string text
function M.duration(s)
  s = math.floor(s + 0.5)
  if s < 60 then return s .. ' s' end
  if s < 3600 then return ('%d:%02d'):format(s / 60, s % 60) end
  return ('%d:%02d:%02d'):format(s / 3600, s / 60 % 60, s % 60)
end

-- Seconds left, from the mean rate of about the last half minute.
local function left(self)
  local rest = self.total - self.done
  if self.work then rest = self.work.total - self.work.done end
  if rest <= 0 or not self.rate or self.rate <= 0 then return nil end
  return rest / self.rate
end

local function failures(self)
  if self.n_failed == 0 then return '' end
  local causes = {}
  for state in pairs(self.failed) do causes[#causes + 1] = state end
  table.sort(causes)
  for i, state in ipairs(causes) do causes[i] = ('%s %d'):format(state, self.failed[state]) end
  return (' · %d failed (%s)'):format(self.n_failed, table.concat(causes, ', '))
end

-- How far a sweep is: in which pass, and of how many of its points.
local function where(self)
  local work = self.work
  if not work or not work.of or work.total <= self.total then
    return ('%d/%d'):format(self.done, self.total)
  end
  local passes = math.floor(work.total / math.max(self.total, 1))
  if work.pass > passes then
    return ('%d/%d, pass %d of what is undecided %d/%d'):format(self.total, self.total, work.pass,
      work.at, work.of)
  end
  return ('pass %d of %d, %d/%d'):format(work.pass, passes, work.at, work.of)
end

local function line(self, point)
  local eta = left(self)
  return ('%s %s'):format(self.name, where(self))
    .. (eta and ' · ' .. M.duration(eta) .. ' left' or '') .. failures(self)
    .. (point and ' · ' .. point or '')
end

-- Cut to the width of the terminal, in characters, not bytes.
local function cut(text, columns)
  local n, at = 0, 1
  for i in text:gmatch '()[%z\1-\127\194-\244][\128-\191]*' do
    n = n + 1
    if n == columns then at = i end
  end
  return n < columns and text or text:sub(1, at - 1)
end

-- Take away what stands above the bar.
local function clear(self)
  if self.height > 0 then self.out:write(('\r\27[%dA\27[J'):format(self.height)) end
  self.height = 0
end

-- The map again, at most every so often: a look costs a few milliseconds.
local function look(self, now, final)
  if not self.view or not final and self.looked and now - self.looked < LOOK_EVERY then return end
  local lines = self.view()
  self.looked = self.now() -- a slow look is not followed by the next one
  clear(self)
  if #lines > 0 then self.out:write('\r\27[J', table.concat(lines, '\n'), '\n') end
  self.height = #lines
end

local function draw(self, point, final)
  local now = self.now()
  if self.style == 'bar' then
    if not final and self.drawn_at and now - self.drawn_at < REDRAW_EVERY then return end
    self.drawn_at = now
    if not point or final then look(self, now, final) end
    self.out:write('\r', cut(plain.line(line(self, point)), self.columns or width()), '\27[K')
    if final then self.out:write '\n' end
    self.out:flush()
  elseif self.style == 'plain' then
    local tenth = self:share()
    local due = tenth > self.tenth and (not self.plain_at or now - self.plain_at >= PLAIN_EVERY)
    if final or due then
      self.tenth, self.plain_at = tenth, now
      self.out:write(plain.line(line(self, final and point or nil)), '\n')
      self.out:flush()
    end
  end
end

--- Say which point is under way.
---@param point string
function Progress:at(point) draw(self, point, false) end

-- So many more are done; the rate is a mean of about the last half minute.
local function count(self, n)
  local now = self.now()
  local seconds = math.max(now - self.last, 1e-6)
  local weight = self.rate and 1 - math.exp(-seconds / MEMORY) or 1
  self.rate = (self.rate or 0) * (1 - weight) + n / seconds * weight
  self.last = now
  draw(self, nil, false)
end

-- Seconds between two questions about the passes: each reads the trials of the sweep.
local ASK_EVERY = 1

-- How far the passes are now; how many are new.
local function look_at_work(self)
  local before = self.work and self.work.done or 0
  self.work, self.asked = self.ask(), self.now()
  return math.max(0, self.work.done - before)
end

--- Count passes of points, and points that reached their final state.
---@param states table list of states; 'pass': the point has more of them before it
function Progress:add(states)
  local done = 0
  for _, state in ipairs(states) do
    if state ~= 'pass' then
      done = done + 1
      self:fail(state, 1)
    end
  end
  self.done = self.done + done
  if not self.ask then return count(self, #states) end
  if self.asked and self.now() - self.asked < ASK_EVERY then return end
  count(self, look_at_work(self))
end

--- Show what the database says, when others do the counting.
---@param counts table trials by state, and total
function Progress:update(counts)
  local done = 0
  self.failed, self.n_failed, self.total = {}, 0, counts.total
  for state, n in pairs(counts) do
    if state ~= 'total' and state ~= 'pending' and state ~= 'running' then
      done = done + n
      self:fail(state, n)
    end
  end
  self.done = math.min(self.done, done) -- some may have come back
  local new = done - self.done
  self.done = done
  if self.ask then new = look_at_work(self) end
  if new > 0 then count(self, new) else draw(self, nil, false) end
end

--- Trials come back to be measured again.
---@param n integer
function Progress:back(n) self.done = self.done - n end

--- Print a line of its own above the progress line.
---@param text string
function Progress:note(text)
  if self.style == 'off' then return end
  clear(self)
  self.looked = nil
  self.out:write(self.style == 'bar' and '\r\27[K' or '', plain.text(text), '\n')
  self.out:flush()
end

--- Leave the last line behind.
---@param text string|nil said after the counts
function Progress:finish(text)
  if self.style == 'off' then return end
  if self.ask then look_at_work(self) end
  draw(self, text or ('%s in all'):format(M.duration(self.now() - self.began)), true)
end

return M
