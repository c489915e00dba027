-- SPDX-License-Identifier: MIT
--- A job: ranks from their start to their end, once.
--
-- mpirun or srun starts keepers, each of them a rank. What ranks print and how they end is told by
-- keepers over lines of their own, and by these they are ended: whether what started them still
-- does anything is of no account.

local C = require 'ridge.ffi.lib'
local ffi = require 'ffi'
local host = require 'ridge.host'
local keeper = require 'ridge.launch.keeper'
local line = require 'ridge.launch.line'
local mpirun = require 'ridge.launch.mpirun'
local printer = require 'ridge.launch.printer'
local process = require 'ridge.process'
local relay = require 'ridge.launch.relay'

local M = {}

local SOON = 3 -- seconds: for what started ranks to end by itself, behind them
local GRACE = 5 -- seconds: for others to say that they wait, too; for keepers; for a signal
local MORE = relay.WINDOW / 4 -- bytes of what a rank printed that are acknowledged at once
local LEAST_PATIENCE = 60 -- seconds that ranks may start one behind the other, whatever the timeout

ffi.cdef 'int ridge_job_kill(int, int) __asm__("kill");'

local function now() return tonumber(C.rg_clock_ns()) / 1e9 end

-- -- What is printed ---------------------------------------------------------------------------

-- A line of a keeper, or of the starter's own: that is kept, and told where nothing else is known.
local function tell(self, text, from)
  local rank, stream, said, second = self.by.line(text, from)
  if not rank then
    self.own[#self.own + 1] = text
    return
  end
  if said ~= '' or stream == 'out' and not second then
    self.printer:print(stream, ('[%s] %s\n'):format(rank, said))
  end
  if second then tell(self, second, from) end
end

-- Ranks may send as much again as they have sent, where who reads it keeps up; where the user has
-- ended them, what is left in their pipes.
local function let_more(self)
  self.printer:write()
  if not self.printer:has_room() and not self.interrupted then return end
  for _, rank in pairs(self.ranks) do
    if rank.owed >= MORE then
      rank.line:send('more ' .. rank.owed)
      rank.owed = 0
    end
  end
end

local function read_out(self)
  while not self.silent do
    local text, why = self.process:receive(0)
    if not text then
      self.silent = why == 'closed'
      if self.silent and self.process.channel.pending ~= '' then
        tell(self, self.process.channel.pending, 'out')
      end
      return
    end
    tell(self, text, 'out')
  end
end

local function read(self)
  read_out(self)
  local text = self.err and self.err:receive()
  while text do
    tell(self, text, 'err')
    text = self.err:receive()
  end
end

-- -- What keepers say ---------------------------------------------------------------------------

local HEAR = {}

-- What a rank prints, a line or a part of one.
for word, how in pairs { out = { 'out', true }, outpart = { 'out', false }, err = { 'err', true },
  errpart = { 'err', false } } do
  HEAR[word] = function(rank, text, self)
    rank.owed = rank.owed + #word + 1 + #text + 1
    self.printer:take(rank.number, how[1], text, how[2])
  end
end

function HEAR.pid(rank, text) rank.pid = tonumber(text) end
function HEAR.state(rank, text) rank.state = text end
function HEAR.begun(_, _, self) self.begun = true end
function HEAR.late(rank, text) rank.late = text end
function HEAR.joined(rank) rank.joined = true end

function HEAR.joining(rank, text)
  rank.joining, rank.patience = now(), math.max(LEAST_PATIENCE, tonumber(text) or 0)
end

function HEAR.stopped(rank, _, self)
  if self.failed then return end
  rank.stopped, self.failed = true, rank
end

function HEAR.ended(rank, text, self)
  local code, signal, memory = text:match '^(%-?%d+) (%d+) (%d+)$'
  if not code then return end
  code, signal = tonumber(code), tonumber(signal)
  rank.ended = { status = signal > 0 and 128 + signal or code, signal = signal,
    memory = memory == '1' }
  if rank.ended.status ~= 0 and not self.failed then self.failed = rank end
end

function HEAR.silent(rank)
  rank.silent = true
  if rank.ended and rank.ended.status == 0 then rank.line:send 'exit' end
end

-- Who has connected says which rank it looks after, and the word that it was told.
local function welcome(self)
  local new = self.listener.accept()
  while new do
    table.insert(self.strangers, { line = new, since = now() })
    new = self.listener.accept()
  end
  for i = #self.strangers, 1, -1 do
    local stranger = self.strangers[i]
    local text = stranger.line:receive()
    local secret, number, place = (text or ''):match '^hello (%x+) (%d+) (.*)$'
    number = tonumber(number)
    if secret == self.secret and number < self.n and not self.ranks[number] then
      self.ranks[number] = { number = number, place = place, line = stranger.line, heard = now(),
        owed = 0 }
      table.remove(self.strangers, i)
    elseif text or not stranger.line.fd or now() - stranger.since > GRACE then
      stranger.line:close()
      table.remove(self.strangers, i)
    end
  end
end

-- Opening MPI waits for all ranks, for ever. So who waits there for one that has ended without it,
-- or for long, waits in vain.
local function look_at_start(self)
  local waits, missing
  for r = 0, self.n - 1 do
    local rank = self.ranks[r]
    if rank and rank.joining then
      waits = waits or not rank.joined and rank.joining + rank.patience or nil
    elseif not missing or rank and rank.ended then
      missing = rank or { number = r }
    end
  end
  if not waits or not missing or self.failed then return end
  if missing.ended or now() > waits then self.failed, missing.unjoined = missing, true end
end

local function hear(self)
  welcome(self)
  for r = 0, self.n - 1 do
    local rank = self.ranks[r]
    if rank then rank.line:push() end
    local text = rank and rank.line:receive()
    while text do
      rank.heard = now()
      local word, more = text:match '^(%a+) ?(.*)$'
      if HEAR[word] then HEAR[word](rank, more, self) end
      text = rank.line:receive()
    end
    if rank and not rank.ended then
      rank.gone = not rank.line.fd
      rank.lost = rank.lost or now() - rank.heard > self.silence
      if (rank.gone or rank.lost) and not self.failed then self.failed = rank end
    end
  end
  look_at_start(self)
end

local function say(self, text)
  for _, rank in pairs(self.ranks) do rank.line:send(text) end
end

local function turn(self)
  if now() - self.said >= math.min(1, self.silence / 10) then
    say(self, 'alive')
    self.said = now()
  end
  read(self)
  hear(self)
  let_more(self)
  if host.stopping() then error({ code = 'EINTR' }, 0) end
  local list = { self.listener.fd }
  if not self.silent then list[2] = self.process.channel.fd end
  if self.err then list[#list + 1] = self.err.fd end
  local takers = { self.printer:waits_for() }
  for _, rank in pairs(self.ranks) do
    list[#list + 1] = rank.line.fd
    if rank.line.unsent ~= '' then takers[#takers + 1] = rank.line.fd end
  end
  for _, stranger in ipairs(self.strangers) do list[#list + 1] = stranger.line.fd end
  line.wait(list, 100, takers)
end

-- -- Its end ------------------------------------------------------------------------------------

-- Processes that one has started.
local function children(pid)
  local list = {}
  for _, thread in ipairs(host.directory(('/proc/%d/task'):format(pid)) or {}) do
    local file = io.open(('/proc/%d/task/%s/children'):format(pid, thread), 'rb')
    for number in (file and file:read '*a' or ''):gmatch '%d+' do
      list[#list + 1] = tonumber(number)
    end
    if file then file:close() end
  end
  return list
end

local function over(self)
  for _, rank in pairs(self.ranks) do
    if rank.line.fd and not (rank.ended and rank.silent) then return false end
  end
  return true
end

-- Turn until f holds, or for some seconds; those count in which somebody does not read what ranks
-- have printed only where the user has ended the job.
local function turn_until(self, f, seconds)
  local begun = now()
  while not f() and now() - begun < seconds do
    turn(self)
    if self.printer:waits() and not self.interrupted then begun = now() end
  end
  return f()
end

-- End all of it: ranks by their keepers, what started them by a signal where that ends it, else by
-- process id.
local function finish(self)
  say(self, 'kill')
  turn_until(self, function() return over(self) end, GRACE)
  for _, rank in pairs(self.ranks) do rank.lost = rank.lost or not rank.ended and not rank.gone end
  say(self, 'exit')
  local function ended() return not self.process:wait(0).running end
  -- what ranks have printed comes through it; it ends when they have, but for one that hangs
  if turn_until(self, ended, SOON) then return end
  local started = children(self.process.pid)
  self.process:kill(15)
  if turn_until(self, ended, GRACE) then return end
  for _, pid in ipairs(started) do ffi.C.ridge_job_kill(pid, 9) end
  self.process:kill(9)
end

-- -- How it went --------------------------------------------------------------------------------

local function numbers(list)
  table.sort(list)
  local text = #list == 1 and 'rank ' or 'ranks '
  for i, r in ipairs(list) do
    text = text .. (i == 1 and '' or i == #list and ' and ' or ', ') .. r
  end
  return text
end

-- Of ranks that waited in vain: who did, and for whom.
local function waited(self)
  local late, missing, stopped, lost = {}, {}, true, false
  for r = 0, self.n - 1 do
    local rank = self.ranks[r]
    if rank and rank.late then
      late[#late + 1] = r
    else
      missing[#missing + 1] = r
      stopped = stopped and rank and rank.state == 'T'
      lost = lost or rank and rank.lost
    end
  end
  if #missing == 0 then return numbers(late) .. ' waited in vain for each other' end
  return ('%s waited in vain for %s, which %s'):format(numbers(late), numbers(missing),
    lost and (#missing == 1 and 'is not reached any more' or 'are not reached any more')
    or stopped and (#missing == 1 and 'was stopped' or 'were stopped')
    or 'did not come')
end

-- Did a rank wait in vain? Where its script goes on behind that, mpirun ends all of them, and which
-- keeper is gone first says nothing.
local function any_late(self)
  for _, rank in pairs(self.ranks) do
    if rank.late then return true end
  end
  return false
end

-- Of ranks that waited in dist.init.
local function unjoined(self)
  local waiting = {}
  for r = 0, self.n - 1 do
    if self.ranks[r] and self.ranks[r].joining then waiting[#waiting + 1] = r end
  end
  return ('%s waited in dist.init in vain for rank %d, which %s'):format(numbers(waiting),
    self.failed.number, self.failed.ended and 'ended without it' or 'did not come')
end

local function reason(self, how)
  local rank = self.failed
  if any_late(self) and (not rank or rank.gone and not rank.ended) then return waited(self) end
  if not rank then
    local said = table.concat(self.own, '\n'):gsub('%s+$', '')
    return ('%s\n%s ended with status %d'):format(said, self.by.program, how)
  end
  local name = 'rank ' .. rank.number
  if rank.unjoined then return unjoined(self) end
  if rank.late then return waited(self) end
  if rank.stopped then return ('%s was stopped for more than %g s'):format(name, self.silence) end
  if not rank.ended then
    return rank.gone and name .. ' ended together with the process that looked after it'
      or ('%s on %s has not been heard of for %g s'):format(name,
        self.hosts and mpirun.host_of(self.hosts, rank.number) or rank.place, self.silence)
  elseif rank.ended.memory then
    return name .. ' was ended by the kernel, which had no memory left (signal 9)'
  elseif rank.ended.signal > 0 then
    return ('%s was ended by signal %d'):format(name, rank.ended.signal)
  end
  return ('%s ended with status %d'):format(name, rank.ended.status)
end

local function status_of(self, how)
  local rank = self.failed
  if not rank then return how ~= 0 and any_late(self) and 5 or how end
  return rank.ended and not rank.stopped and not rank.unjoined and rank.ended.status or 5
end

-- Machines whose ranks are not reached any more.
local function lost_hosts(self)
  local lost = {}
  for r, rank in pairs(self.ranks) do
    if rank.lost and self.hosts then lost[mpirun.host_of(self.hosts, r)] = true end
  end
  return lost
end

-- Behind the first that waited in vain the others may say so, too.
local function all_late(self)
  local n = 0
  for _, rank in pairs(self.ranks) do n = n + (rank.ended and 1 or 0) end
  return n >= self.n - 1
end

local function print_rest(self)
  self.printer:last_lines()
  turn_until(self, function()
    self.printer:write()
    return not self.printer:waits()
  end, GRACE)
end

-- To the end of all ranks, or the first that failed.
local function follow(self)
  local function ended() return not self.process:wait(0).running end
  while not self.failed and not ended() do turn(self) end
  if self.failed and self.failed.late then
    turn_until(self, function() return all_late(self) end, GRACE)
  end
  if not ended() then
    finish(self)
  elseif not self.failed then
    turn_until(self, function() return over(self) or self.failed end, GRACE)
  end
  local how = self.process:wait()
  read(self)
  if self.err and self.err:rest() ~= '' then tell(self, self.err:rest(), 'err') end
  print_rest(self)
  return how.signal > 0 and 128 + how.signal or how.code
end

local function addresses(several)
  if not several then return '127.0.0.1' end
  local list = {}
  local pipe = io.popen 'hostname -I 2>/dev/null'
  for number in (pipe and pipe:read '*a' or ''):gmatch '%S+' do
    if number:find '^%d+%.%d+%.%d+%.%d+$' then list[#list + 1] = number end
  end
  if pipe then pipe:close() end
  list[#list + 1] = '127.0.0.1'
  return table.concat(list, ',')
end

--- Run a job.
---@param given table by (ridge.launch.mpirun or .srun), n, several (machines), hosts, job (of
---  Slurm), env, programs, rest, silence
---@return table how status, reason, begun (a step of training has ended), lost (machines),
---  unprinted (why not all that ranks printed could be written)
function M.run(given)
  local self = { by = given.by, n = given.n, hosts = given.hosts, silence = given.silence,
    ranks = {}, own = {}, strangers = {}, said = now(), secret = line.secret(),
    printer = printer.new() }
  self.listener = line.listen(given.several and '0.0.0.0' or '127.0.0.1')
  given.at = { addresses(given.several), tostring(self.listener.port), tostring(given.silence) }
  local env = { [keeper.SECRET] = self.secret }
  for name, value in pairs(given.env) do env[name] = value end
  local err, other
  if given.job then err, other = line.pair() end -- srun keeps what ranks say of errors apart
  self.err = err
  self.process = process.spawn { program = given.by.words(given), env = env,
    own_group = true, err = other and other.fd or 2 }
  if other then other:close() end
  local ok, status = pcall(follow, self)
  if not ok then
    host.stopped()
    self.interrupted = true
    pcall(finish, self)
    pcall(print_rest, self)
  end
  self.process:close()
  self.listener.close()
  if self.err then self.err:close() end
  for _, rank in pairs(self.ranks) do rank.line:close() end
  if not ok then
    if type(status) == 'table' and status.code == 'EINTR' then return { status = 130 } end
    error(status, 0)
  end
  status = status_of(self, status)
  return { status = status, reason = status ~= 0 and reason(self, status) or nil,
    begun = self.begun, lost = lost_hosts(self), unprinted = self.printer.why }
end

return M
