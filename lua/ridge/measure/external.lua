-- SPDX-License-Identifier: MIT
--- Work of another program as a candidate: ONNX Runtime, PyTorch, whatever runs in a process of its
--- own, timed in the same blocks as a plan (ridge.measure.ab) or as a point (ridge.measure.point).
--
-- The program is a child that reads lines from descriptor 3 and answers there, a line each:
--
--     (at its start)        ready WORDS        its name and versions, shown beside the result
--     run CALLS WINDOWS     ran NS NS ...      time of CALLS calls, by its own clock, once a window
--     results FOLDER        wrote N            what a call returns, as FOLDER/1.npy .. N.npy
--                           none               it does not say
--     (anything)            error WORDS        said as our own error; the child goes on
--
-- It ends when the descriptor does.  It reads its own clock, so that no message is part of a time.
-- Threads that spin for some milliseconds behind a call would slow whoever is timed next: behind
-- each answer this process waits until the child's processor time stands still.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local process = require 'ridge.process'

local M = {}

local SPEC = {
  command = { 'list', doc = 'the program, looked up on the PATH, and its arguments' },
  env = { 'table', doc = 'variables of its environment, name to text' },
  timeout = { 'number', default = 120, min = 1e-3, max = 86400,
              doc = 'seconds that an answer may take beside the calls themselves' },
  restless = { 'boolean', default = false, doc = 'do not wait until its threads sleep' },
}

-- -- Processor time of another process ---------------------------------------------------------

ffi.cdef [[
  typedef struct { long s, ns; } ridge_external_time;
  int ridge_external_gettime(int clock, ridge_external_time *) __asm__("clock_gettime");
  int ridge_external_mkdir(const char *, unsigned int) __asm__("mkdir");
]]

local time = ffi.new 'ridge_external_time'

--- Processor time of a process, ns: Linux's clock of all its threads (CPUCLOCK_SCHED of
--- posix-timers_types.h); 0 where there is no such process.
---@param pid number
---@return number ns
local function cpu_of(pid)
  local clock = bit.bor(bit.lshift(bit.bnot(pid), 3), 2)
  if ffi.C.ridge_external_gettime(clock, time) ~= 0 then return 0 end
  return tonumber(time.s) * 1e9 + tonumber(time.ns)
end

M.cpu_of = cpu_of

local STEP_NS, MOST_NS = 2e5, 5e7 -- gcc's OpenMP spins some milliseconds, MKL's 200

--- Wait until a child rests: until its threads took less than a fiftieth of a step's time, or for
--- 50 ms.
---@param cpu function its processor time, ns
---@param clock function a clock, ns
---@param sleep function sleeps so many ns
function M.rest(cpu, clock, sleep)
  local last, until_ns = cpu(), clock() + MOST_NS
  repeat
    sleep(STEP_NS)
    local now = cpu()
    if now - last < 0.02 * STEP_NS then return end
    last = now
  until clock() > until_ns
end

-- -- The child ---------------------------------------------------------------------------------

local External = { __name = 'external' }
External.__index = External

local alive = setmetatable({}, { __mode = 'k' })
local ended_ns = 0
local lasting -- while candidates are made that are made again: children by their words

--- Processor time of all such children so far, of those that ended too: who looks for foreign work
--- on this machine counts it as our own.
---@return number ns
function M.cpu_ns()
  local sum = ended_ns
  for child in pairs(alive) do sum = sum + cpu_of(child.process.pid) end
  return sum
end

local function found(name)
  return name:find('/', 1, true) and name or process.find(name)
end

local function fail(self, text, ...)
  blame.raise(('external: %s %s'):format(self.name, text:format(...)), 'ESYS', 'external')
end

-- The words of an answer of this kind; every other one ends the candidate or is its error.
local function answer(self, wanted, more_ns)
  local line, why = self.process:receive(self.timeout_ns + (more_ns or 0))
  if not line and why == 'timeout' then
    self:close()
    fail(self, 'gave no answer within %g s and was ended', self.timeout_ns / 1e9)
  end
  if not line then
    local how = self.process:wait()
    self:close()
    fail(self, 'ended (%s)', how.signal > 0 and 'signal ' .. how.signal or 'status ' .. how.code)
  end
  local kind, words = line:match '^(%l+) ?(.*)$'
  if kind == 'error' then fail(self, 'says: %s', words) end
  if not (kind and wanted[kind]) then
    fail(self, 'answers %s, wanted %s', blame.show(line), wanted.text)
  end
  return words, kind
end

local function ask(self, line, wanted, more_ns)
  if not self.process then fail(self, 'was closed') end
  local ok = pcall(self.process.send, self.process, line)
  -- of a child that is gone the answer says how it ended
  if not ok and not self.process then fail(self, 'ended') end
  return answer(self, wanted, more_ns)
end

local RAN = { ran = true, text = "'ran NS ...'" }
local WROTE = { wrote = true, none = true, text = "'wrote N' or 'none'" }
local READY = { ready = true, text = "'ready WORDS'" }

-- n windows of k calls, as ridge.measure.native has them.
local function windows_of(self, k, n, cold)
  if cold then
    fail(self, 'cannot be timed cold: nobody can flush the caches between its calls')
  end
  local began = tonumber(C.rg_clock_ns())
  local words = ask(self, ('run %d %d'):format(k, n), RAN, 1e9 + 20 * k * n * (self.per_call or 0))
  local ended, out = tonumber(C.rg_clock_ns()), {}
  for word in words:gmatch '%S+' do
    local ns = tonumber(word)
    if not (ns and ns > 0 and ns <= ended - began) then
      fail(self, 'says that %d calls took %s ns, within %.0f of this clock', k, word,
        ended - began)
    end
    out[#out + 1] = { begin_ns = began, end_ns = ended, ns = ns, calls = k, own_cpu_ns = 0 / 0,
                      involuntary = 0, migrations = 0 }
  end
  if #out ~= n then fail(self, 'gives %d times for %d windows', #out, n) end
  self.per_call = out[1].ns / k
  if not self.restless then
    local pid = self.process.pid
    M.rest(function() return cpu_of(pid) end, function() return tonumber(C.rg_clock_ns()) end,
      require('ridge.measure.native').sleep)
  end
  return out
end

-- What a call returns, for the check that both candidates compute the same.
local function results_of(self)
  local name, out = os.tmpname(), { n = 0 } -- the file keeps the name of the folder beside it
  local folder = name .. '.results'
  if ffi.C.ridge_external_mkdir(folder, 448) ~= 0 then -- 0700
    os.remove(name)
    blame.raise('external: cannot make the folder ' .. folder .. ' for results', 'EIO', 'external')
  end
  local ok, err = pcall(function()
    local words, kind = ask(self, 'results ' .. folder, WROTE)
    if kind == 'none' then return end
    out.n = tonumber(words) or 0
    for i = 1, out.n do
      local path = ('%s/%d.npy'):format(folder, i)
      out[i] = require('ridge').data.npy(path)
      os.remove(path)
    end
  end)
  os.remove(folder)
  os.remove(name)
  if not ok then error(err, 0) end
  return out
end

--- End the child. Twice does nothing.
function External:close()
  if not self.process then return end
  ended_ns = ended_ns + cpu_of(self.process.pid)
  alive[self] = nil
  self.process:close()
  self.process = nil
end

--- The program and what it said of itself: 'python3: onnxruntime 1.32, 2 threads'.
function External:__tostring() return self.name .. ': ' .. self.ready end
External.__tostring = guard.text(External.__tostring)

local function key_of(opt)
  local parts = {}
  for name, value in pairs(opt.env or {}) do parts[#parts + 1] = name .. '=' .. value end
  table.sort(parts)
  return table.concat(opt.command, '\0') .. '\0\0' .. table.concat(parts, '\0')
end

--- A function that makes candidates, whose children live on: made again with the same words they
--- are the first ones.  A program takes seconds to start where a plan takes microseconds.
---@param f function
---@return function
function M.lasting(f)
  local children = {}
  return function(...)
    local before = lasting
    lasting = children
    local result = { pcall(f, ...) }
    lasting = before
    if not result[1] then error(result[2], 0) end
    return unpack(result, 2, table.maxn(result))
  end
end

--- Start another program as a candidate.
---
--- Where a comparison makes its candidates anew for each block (setup), such a child lives through
--- all blocks of its process: where its memory lies differs by process, not by block.
---@param given table  command = { program, argument, ... }, env, timeout, restless
---@return table candidate  for ab{ a =, b = }, point(); ready (its words), close()
-- >> ridge.measure.ab { a = plan, b = ridge.measure.external {
-- >>   command = { 'python3', 'scripts/peers/ort_worker.py', 'net.onnx' } } }
function M.external(given)
  local opt = options.check(SPEC, given, 'measure.external')
  if not opt.command or #opt.command == 0 then
    blame.raise('measure.external: a command is needed, as a list of words', 'EARG')
  end
  for i, word in ipairs(opt.command) do
    if type(word) ~= 'string' or word:find '%z' then
      blame.raise(('measure.external: word %d of the command is %s, wanted a text'):format(i,
        blame.show(word)), 'EARG')
    end
  end
  local key = key_of(opt)
  if lasting and lasting[key] and lasting[key].process then return lasting[key] end
  local path = found(opt.command[1])
  if not path then
    blame.raise(('measure.external: there is no program %s on the PATH'):format(
      blame.show(opt.command[1])), 'EARG')
  end
  local program = { path }
  for i = 2, #opt.command do program[i] = opt.command[i] end
  local self = setmetatable({ name = opt.command[1]:match '[^/]+$' or path,
    timeout_ns = opt.timeout * 1e9, restless = opt.restless, is_external = true,
    process = process.spawn { program = program, env = opt.env } }, External)
  alive[self] = true
  local ok, words = pcall(answer, self, READY)
  if not ok then
    self:close()
    error(words, 0)
  end
  self.ready = words
  self.window = function(k, n, cold) return windows_of(self, k, n, cold) end
  self.results = function() return results_of(self) end
  if lasting then lasting[key] = self end
  return self
end

return M
