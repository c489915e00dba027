-- SPDX-License-Identifier: MIT
--- What findings ask about a run: each thing is measured once, when it is first asked for, and
--- where it cannot be, everybody who asks is told why.

local ffi = require 'ffi'
local backend = require 'ridge.backend'
local blame = require 'ridge.blame'
local memory = require 'ridge.memory'
local pieces = require 'ridge.tensor.pieces'
local products = require 'ridge.products'
local ref = require 'ridge.ffi.ref'
local unit = require 'ridge.show.unit'

local M = {}

local Run = {}
Run.__index = Run

--- A run.
---@param s table subject
---@param trial table|nil where there is a net to try
---@param opt table options of ridge.advise
---@return table run
function M.new(s, trial, opt)
  return setmetatable({ s = s, trial = trial, opt = opt, profile = s.profile, known = {} }, Run)
end

--- Why nothing can be tried of it.
---@return string
function Run:why_no_trial()
  if not self.s.net then
    return 'no module was called in training mode: none is known to try anything with'
  end
  return self.s.untrained or 'the input of the net is not known'
end

-- A thing, measured once.
local function once(self, name, f)
  local known = self.known[name]
  if not known then
    local ok, value, why = pcall(f)
    local short = not ok and blame.is_error(value) and value.code == 'ENOMEM'
    if not ok then
      if blame.is_error(value) and value.code == 'EINTR' then error(value, 0) end
      value, why = nil, tostring(blame.is_error(value) and value.message or value)
    end
    known = { value = value, why = why, short = short }
    self.known[name] = known
  end
  return known.value, known.why, known.short
end

local function tried(self, name, f)
  if not self.trial then return nil, self:why_no_trial() end
  return once(self, name, f)
end

--- A pass with products in a smaller type beside one without: ratio, lo, hi, a_ns, b_ns, and peaks
--- and losses of both.
---@return table|nil found
---@return string|nil why
function Run:smaller_type()
  return tried(self, 'smaller_type', function()
    local t, kind = self.trial, self.s.autocast or 'bf16'
    local found, why = t:pair_passes({ autocast = false }, { autocast = kind })
    if not found then return nil, why end
    found.kind = kind
    found.peak_a, found.peak_b = t:peak { autocast = false }, t:peak { autocast = kind }
    found.loss_a, found.loss_b = t:loss { autocast = false }, t:loss { autocast = kind }
    return found
  end)
end

--- A pass as a plan beside one that is not: ratio, lo, hi, a_ns, b_ns, steps, device_graph.
---@return table|nil found
---@return string|nil why
---@return boolean failed there is no plan, and why says the reason
function Run:plan()
  local found, why = tried(self, 'plan', function()
    local t = self.trial
    local plan, reason = t:plan()
    if not plan then
      self.no_plan = reason
      return nil, 'no plan can be made of it: ' .. reason
    end
    local facts = plan:facts()
    local pass = require('ridge.advise.trial').alone(t:pass())
    local c, no = t:pair(pass, function() plan:run() end)
    plan:release()
    if not c then return nil, no end
    c.steps, c.device_graph = facts.n_steps, facts.device_graph
    return c
  end)
  return found, why, self.no_plan ~= nil
end

--- Times of batches of other sizes: a list of { rows, ratio, lo, hi (time of a row, against that of
--- the batch as it is), peak }.
---@return table|nil list
---@return string|nil why
function Run:batches()
  return tried(self, 'batches', function()
    local t, n = self.trial, self.s.rows
    if not n or n == 0 then return nil, 'the input has no rows' end
    local list = { peak = t:peak() }
    local room = self:room()
    for _, times in ipairs { 2, 4 } do
      if room and list.peak * times > 0.8 * room then break end
      local c, why = t:pair_passes(nil, { rows = times * n })
      if not c then
        if #list == 0 then return nil, why end
        break
      end
      list[#list + 1] = { rows = times * n, ratio = c.ratio / times, lo = c.lo / times,
        hi = c.hi / times, a_ns = c.a_ns, b_ns = c.b_ns, peak = t:peak { rows = times * n } }
    end
    if #list == 0 then return nil, 'twice the batch does not fit into memory' end
    return list
  end)
end

--- Bytes that a pass needs at its highest point, above what was there before.
---@return number|nil bytes
---@return string|nil why
---@return boolean|nil short there is none because it did not fit into memory
function Run:peak()
  return tried(self, 'peak', function() return self.trial:peak() end)
end

local MOST_INPUTS, MOST_BYTES = 200, 2 ^ 25 -- that are looked at, and kept meanwhile

--- How many inputs of the loader are byte for byte as one before; its order stays where it was.
---@return table|nil found n, again
---@return string|nil why
function Run:repeated()
  return once(self, 'repeated', function()
    local loader, found, seen, kept = self.s.loader, { n = 0, again = 0 }, {}, 0
    if not loader then return nil, 'one input is known: a loader tells whether any comes again' end
    local before = loader.state and loader:state()
    for x in loader:each() do
      if not ref.is(x) then break end
      local key = {}
      pieces.read(x, 'advise', function(buffer, bytes)
        key[#key + 1], kept = ffi.string(buffer, bytes), kept + bytes
      end)
      key[#key + 1] = ('%s[%s]'):format(x.dtype, table.concat(x.shape, ','))
      key = table.concat(key)
      found.n, found.again = found.n + 1, found.again + (seen[key] and 1 or 0)
      seen[key] = true
      if found.n == MOST_INPUTS or kept >= MOST_BYTES then break end
    end
    if before and loader.load_state then loader:load_state(before) end
    if found.n == 0 then return nil, 'the loader has given no tensors' end
    return found
  end)
end

--- The time of one row in inference.
---@return number|nil ns
function Run:latency()
  local c = tried(self, 'latency', function()
    local ridge = require 'ridge'
    local s = self.s
    local x = s.args[1]:narrow(1, 1, 1)
    local function one() memory.scope(ridge.inference, s.net, x) end
    s.net:eval()
    local ok, found, why = pcall(self.trial.pair, self.trial, one, one)
    s.net:train()
    if not ok then error(found, 0) end
    return found, why
  end)
  return c and math.min(c.a_ns, c.b_ns)
end

--- Bytes that there may be more of where the net is, what is cached among them; nil where nobody
--- says. A limit is one of live bytes: what is cached does not raise it.
---@return number|nil
function Run:room()
  local s = memory.system()
  local on_gpu = self.s.device ~= 'cpu'
  local free = on_gpu and s.gpu_free_mb and s.gpu_free_mb * 2 ^ 20
    or not on_gpu and s.system_available_gb and s.system_available_gb * 2 ^ 30 or nil
  local stats = memory.stats(self.s.device)
  free = free and free + stats.cached
  if stats.limit > 0 then free = math.min(free or math.huge, stats.limit - stats.live) end
  return free
end

--- The analysis of the net, not timed.
---@return table|nil analysis
---@return string|nil why
function Run:analysis()
  return tried(self, 'analysis', function()
    local s = self.s
    local more = { unpack(s.args, 2, s.args.n) }
    return s.net:analyze(s.args[1], { more = more, backward = true, rounds = 4, roof = false,
      loss = s.loss and function(out) return s.loss(out, s.y) end or nil })
  end)
end

--- Losses: those of the run, or of some steps on one batch.
---@return table|nil list
---@return string|nil why there are none
---@return boolean own they are the run's
function Run:losses()
  local s = self.s
  if #s.losses >= 8 or s.is_lost then return s.losses, nil, true end
  local list, why = tried(self, 'descent', function()
    if not s.optimizer then
      return nil, 'no losses of it are known, and no optimizer to take steps with'
    end
    return self.trial:descent(16)
  end)
  return list, why, false
end

--- The gradient noise scale in rows.
---@return number|nil rows
---@return string|nil why
function Run:noise()
  return tried(self, 'noise', function()
    if not self.s.loss then return nil, M.NO_LOSS end
    return self.trial:noise_scale()
  end)
end

--- Why something of the loss is not known.
M.NO_LOSS = 'the loss is not known: passes go back from the sum of the output'

-- -- Of the profile -----------------------------------------------------------------------------

local ELEMENTWISE = 1 -- FLOPs a byte: what does fewer is bound by memory at best

--- The share of operations in the profile's time.
---@param is fun(call: table): boolean
---@return number share
---@return integer calls
function Run:share(is)
  local ns, calls = 0, 0
  for _, each in ipairs(self.profile.calls) do
    if is(each) then ns, calls = ns + (each.device_ns or each.self_ns), calls + each.calls end
  end
  return self.profile.ns > 0 and ns / self.profile.ns or 0, calls
end

--- Is a call a product?
---@param each table of a profile's calls
---@return boolean
function M.is_product(each)
  return products.of { name = each.op, flops = each.flops, shapes = each.shapes } > 0
end

--- Does a call little for each byte that it moves? Copies are told apart.
---@param each table
---@return boolean
function M.is_elementwise(each)
  return not M.is_product(each) and not M.is_copy(each) and each.bytes > 0
    and each.flops / each.bytes < ELEMENTWISE
end

local COPIES = { copy = true, concat = true }

--- Does a call only copy?
---@param each table
---@return boolean
function M.is_copy(each) return COPIES[each.op] or false end

--- The share of a section in the profile's time.
---@param name string
---@return number
function Run:section(name)
  for _, each in ipairs(self.profile.sections) do
    if each.name == name then return each.ns / self.profile.ns, each end
  end
  return 0
end

--- The product of a linear layer that takes most of the time: m, k, n, dtype, share; nil where
--- there is none.
---@return table|nil
function Run:largest_product()
  local best, ns = nil, 0
  for _, each in ipairs(self.profile.calls) do
    local m, k, n, dtype = M.sizes_of(each)
    local own = each.device_ns or each.self_ns
    if m and each.op == 'linear' and own > ns then
      best, ns = { m = m, k = k, n = n, dtype = dtype, share = own / self.profile.ns }, own
    end
  end
  return best
end

--- The sizes of a product of two matrices; nil of another call.
---@param each table
---@return number|nil m
---@return number k
---@return number n
---@return string dtype
function M.sizes_of(each)
  if each.op ~= 'linear' and each.op ~= 'matmul' then return nil end
  local dtype, a = each.shapes:match '^(%w+)%[([%d,]+)%]'
  local b, out = each.shapes:match '^%S+ %w+%[([%d,]+)%]', each.shapes:match '%->%s*%w+%[([%d,]+)%]'
  if not a or not b or not out then return nil end
  local m, k = 1, tonumber(a:match '%d+$')
  local n = tonumber(out:match '%d+$')
  for size in out:gmatch '%d+' do m = m * tonumber(size) end
  return m / n, k, n, dtype
end

-- -- Text ---------------------------------------------------------------------------------------

--- A time as text.
---@param ns number
---@return string
function M.time(ns) return unit.format('ns', ns) end

--- Memory as text.
---@param bytes number
---@return string
function M.bytes(bytes) return unit.format('bytes', bytes) end

--- A share as text.
---@param share number
---@return string
function M.percent(share) return ('%.1f %%'):format(100 * share) end

--- A comparison: "1.2 ms beside 3.4 ms, 0.35 of the time [0.33 .. 0.37]".
---@param c table
---@return string
function M.beside(c)
  return ('%s beside %s, %.2f of the time [%.2f .. %.2f]'):format(M.time(c.b_ns), M.time(c.a_ns),
    c.ratio, c.lo, c.hi)
end

--- Does a comparison speak for the second one? nil where it does not say.
---@param c table
---@return boolean|nil
function M.is_faster(c)
  if c.hi < 1 then return true end
  if c.lo > 0.97 then return false end
end

--- Processors that may be used.
---@return number
function M.cores() return backend.machine().cores end

return M
