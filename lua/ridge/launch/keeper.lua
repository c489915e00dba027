-- SPDX-License-Identifier: MIT
--- What a launcher starts for each rank: it starts the rank, tells the launcher how that goes and
--- ends, and ends it when the launcher says so or is not heard of any more.
--
-- It has no part in what ranks send each other, so it answers where a rank is stopped or waits, and
-- where mpirun does. It says to the launcher: hello SECRET RANK PLACE, pid N, joining
-- SECONDS (the rank waits for all in dist.init), joined, begun (the first step of training has
-- ended), late TEXT (the rank waited in vain), stopped (the rank was, for long), alive (now and
-- then), out TEXT, outpart TEXT, err TEXT, errpart TEXT (what the rank prints: relay), ended CODE
-- SIGNAL MEMORY, silent (nothing more is printed). The launcher says: alive, more BYTES (it has
-- printed so many), kill, and exit: a line that is closed while something lies unread in it would
-- lose what was said last.

local C = require 'ridge.ffi.lib'
local ffi = require 'ffi'
local line = require 'ridge.launch.line'
local process = require 'ridge.process'
local relay = require 'ridge.launch.relay'

local M = {}

ffi.cdef [[
int ridge_keeper_parent(void) __asm__("getppid");
int ridge_keeper_pid(void) __asm__("getpid");
int ridge_keeper_kill(int, int) __asm__("kill");
]]

local SIGKILL, SIGTERM = 9, 15

--- The variable by which a keeper learns the word that the launcher knows it by.
M.SECRET = 'RIDGE_LAUNCH_SECRET'

--- The words that start a rank behind its keeper, each of which dies with what started it.
---@param job table programs (setpriv), at (how the launcher is reached), rest (the rank's words)
---@return string[] words
function M.words(job)
  local setpriv, program = job.programs.setpriv, process.program()
  local list = { setpriv, '--pdeathsig', 'KILL', program, 'launch', '--keep' }
  for _, word in ipairs(job.at) do list[#list + 1] = word end
  for _, word in ipairs { setpriv, '--pdeathsig', 'KILL', program } do list[#list + 1] = word end
  for _, word in ipairs(job.rest) do list[#list + 1] = word end
  return list
end

local function now() return tonumber(C.rg_clock_ns()) / 1e9 end

local function first_line(path, pattern)
  for text in io.lines(path) do
    local found = text:match(pattern)
    if found then return found end
  end
end

-- How often the kernel has ended a process of our control group for want of memory; nil: unknown.
local function out_of_memory()
  local ok, n = pcall(function()
    local group = first_line('/proc/self/cgroup', '^%d+:memory:(.*)$')
    if group then
      return first_line(('/sys/fs/cgroup/memory%s/memory.oom_control'):format(group),
        '^oom_kill (%d+)')
    end
    group = first_line('/proc/self/cgroup', '^0::(.*)$')
    return group and first_line('/sys/fs/cgroup' .. group .. '/memory.events', '^oom_kill (%d+)')
  end)
  return ok and tonumber(n) or nil
end

-- Where this is: by name, and by number, since machines may have one name.
local function place()
  local file = io.open('/proc/sys/kernel/hostname', 'rb')
  local name = file and file:read '*l' or '?'
  if file then file:close() end
  return name
end

-- What the rank says of itself, over the descriptor that it was started with.
local function hear(self)
  while not self.deaf do
    local ok, text, why = pcall(self.rank.receive, self.rank, 0)
    if not ok or not text then
      self.deaf = not ok or why == 'closed'
      return
    end
    self.launcher:send(text)
  end
end

-- Nobody is left who would end what started us, on a machine that the launcher does not reach.
local function alone(self)
  self.rank:close()
  local parent = ffi.C.ridge_keeper_parent()
  -- what Slurm's processes end is Slurm's business
  if parent > 1 and parent == self.parent and os.getenv 'OMPI_COMM_WORLD_RANK' then
    ffi.C.ridge_keeper_kill(parent, SIGTERM)
    ffi.C.ridge_keeper_kill(parent, SIGKILL)
  end
  os.exit(137)
end

-- 'T': it is stopped; '?': it has ended.
local function state(pid)
  local file = io.open(('/proc/%d/stat'):format(pid), 'rb')
  local text = file and file:read '*l' or ''
  if file then file:close() end
  return text:match '%) (%a)' or '?'
end

-- The orders of the launcher; true when this is to exit.
local function obey(self)
  local text = self.launcher:receive()
  while text do
    self.heard = now()
    if text == 'kill' then
      self.launcher:send('state ' .. state(self.rank.pid))
      self.rank:kill(SIGKILL)
      self.killed = true
    elseif text == 'exit' then
      return true
    elseif text:find '^more %d+$' then
      self.relay:more(tonumber(text:match '%d+'))
    end
    text = self.launcher:receive()
  end
  if not self.launcher.fd or now() - self.heard > self.silence then alone(self) end
end

-- A rank that is stopped at its end is waited for by nobody who would ever say so.
local function look(self)
  self.launcher:send 'alive'
  self.said = now()
  if state(self.rank.pid) ~= 'T' then
    self.stopped = nil
  elseif not self.stopped then
    self.stopped = now()
  elseif now() - self.stopped > self.silence then
    self.launcher:send 'stopped'
  end
end

local function tell_end(self, how)
  hear(self)
  self.relay:pass() -- what it has printed is told before its end
  local before, after = self.memory, out_of_memory()
  local memory = how.signal == SIGKILL and before and after and after > before and 1 or 0
  self.launcher:send(('ended %d %d %d'):format(how.code, how.signal, memory))
end

-- What the rank prints; behind its end also what those print that it has started, unless the job is
-- being ended.
local function pass(self, over)
  self.relay:pass()
  if not over or self.silent or not self.relay:over(self.killed) then return end
  self.silent = true
  self.launcher:send 'silent'
end

local function wait(self, over)
  local list = { self.launcher.fd }
  if not self.deaf then list[#list + 1] = self.rank.channel.fd end
  if not self.silent then self.relay:wait_for(list) end
  self.launcher:push()
  line.wait(list, over and 200 or 50, self.launcher.unsent ~= '' and { self.launcher.fd } or nil)
end

local function keep(self)
  local over
  while true do
    if now() - self.said >= self.beat then look(self) end
    local leave = obey(self)
    hear(self)
    local how = self.rank:wait(0)
    if not how.running and not over then
      over = true
      tell_end(self, how)
    end
    if over and leave then return end
    pass(self, over)
    wait(self, over)
  end
end

-- How the launcher is reached, out of the first words; nil where they are none of its own.
local function reach(words, secret)
  local hosts, port, silence = {}, tonumber(words[2]), tonumber(words[3])
  for host in (words[1] or ''):gmatch '[^,]+' do
    if not host:find '^%d+%.%d+%.%d+%.%d+$' then return nil end
    hosts[#hosts + 1] = host
  end
  if not (#hosts > 0 and port and port % 1 == 0 and port > 0 and port < 65536
      and secret:find '^%x+$' and silence and silence > 0 and silence < math.huge
      and words[4]) then
    return nil
  end
  return hosts, port, silence
end

--- Start a rank and look after it.
---@param words string[] the launcher's addresses, port, seconds of silence, setpriv, then the
---  rank's program and its arguments
---@return integer status 0, once the launcher has let it go
function M.main(words)
  local secret = os.getenv(M.SECRET) or ''
  local hosts, port, silence = reach(words, secret)
  if not hosts then
    io.stderr:write('ridge launch: --keep is for what ridge launch itself starts in front of each ',
      'rank\n')
    return 1
  end
  local launcher = line.connect(hosts, port, 5000)
  if not launcher then
    io.stderr:write('ridge launch: ', place(), ' does not reach the launcher at ', words[1], '\n')
    return 1
  end
  local rank = os.getenv 'OMPI_COMM_WORLD_RANK' or os.getenv 'PMIX_RANK' or '0'
  launcher:send(('hello %s %s %s'):format(secret, rank, place()))
  local self = { launcher = launcher, heard = now(), said = now(), silence = silence,
    beat = math.min(1, silence / 10),
    parent = ffi.C.ridge_keeper_parent(), memory = out_of_memory() }
  self.relay = relay.new(launcher)
  self.rank = process.spawn { program = { unpack(words, 4) }, out = self.relay.out,
    err = self.relay.err,
    env = { RIDGE_LAUNCHED = tostring(ffi.C.ridge_keeper_pid()), [M.SECRET] = '' } }
  self.relay:started()
  launcher:send(('pid %d'):format(self.rank.pid))
  keep(self)
  launcher:close()
  return 0 -- the launcher knows how the rank ended; for mpirun a status makes a long goodbye
end

return M
