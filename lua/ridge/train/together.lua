-- SPDX-License-Identifier: MIT
--- A training on several ranks: what they tell each other, so that all of them decide alike.
--
-- Each rank's loss counts by its rows, or by its labels that count, over a number that is the same
-- everywhere, and gradients are averaged over ranks with equal weights, once a step: behind the
-- last batch of it. What all batches counted by is known then, and brings the gradients to the mean
-- (see `weigh` in trainer.lua). So the step is that of one rank with all rows, however uneven they
-- are.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local data = require 'ridge.data'
local make = require('ridge.tensor.make').here
local parallel = require 'ridge.dist.parallel'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'Trainer'

local Together = class.class 'train.Together'

---@param net table a dist.DataParallel
function Together:init(net)
  self.net, self.world = net, net.world
  self.rank, self.size = net.world.rank, net.world.size
end

--- The net inside: what checkpoints and optimizers name.
---@param model table
---@return table
function M.bare(model) return parallel.is(model) and model.module or model end

--- Numbers of all ranks.
---@param list number[] of the same length everywhere
---@return table all a list of doubles for each rank, from 1
function Together:gather(list)
  local n = #list
  local own, all = ffi.new('double[?]', n, list), ffi.new('double[?]', n * self.size)
  worlds.run(self.world, WHAT, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_F64, count = n,
    ['in'] = own, out = all }, own, all)
  local out = {}
  for r = 1, self.size do
    local row = {}
    for i = 1, n do row[i] = all[(r - 1) * n + i - 1] end
    out[r] = row
  end
  return out
end

--- Rank 0 does it, and the others wait; an error of it is one everywhere.
---@param what string the function the user called
---@param f function
function Together:first(what, f)
  local ok, err = true, nil
  if self.rank == 0 then ok, err = pcall(f) end
  local text = ok and '' or blame.is_error(err) and err.message or tostring(err)
  text = worlds.texts(self.world, WHAT, text)[1]
  if not ok then error(err, 0) end
  if text ~= '' then blame.raise(('%s: on rank 0: %s'):format(what, text), 'ENET') end
end

-- -- What has to be the same ----------------------------------------------------------------------

-- An option in words that are the same in every process.
local function said(value, depth)
  if type(value) == 'number' then return ('%.17g'):format(value) end
  if type(value) == 'function' then return 'a function' end
  if type(value) ~= 'table' then return tostring(value) end
  local meta = getmetatable(value)
  if meta then
    local name = rawget(meta, '__name') or 'a table'
    return rawget(meta, '__tostring') and ('%s: %s'):format(name, tostring(value)) or tostring(name)
  end
  local names, parts = {}, {}
  for key in pairs(value) do names[#names + 1] = key end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(names) do
    parts[i] = tostring(key) .. ' = ' .. (depth > 0 and said(value[key], depth - 1) or '...')
  end
  return '{ ' .. table.concat(parts, ', ') .. ' }'
end

--- Raise, on all ranks alike, unless they are told the same.
---@param what string the function the user called
---@param pairs_of table name to value
---@param kind string|nil what such a name is: 'option'
function Together:agree(what, pairs_of, kind)
  local names, lines = {}, {}
  for name in pairs(pairs_of) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    lines[i] = ('%s%s is %s'):format(kind and kind .. ' ' or '', name, (said(pairs_of[name], 2)
      :gsub('\n', ' ')))
  end
  worlds.agree(self.world, what, lines)
end

-- -- An epoch -------------------------------------------------------------------------------------

--- Is a loader one that gives each rank rows of its own? One of ridge.data that does not is
--- refused; others are taken for that.
---@param loader table
---@param what string the function the user called
function Together:check_loader(loader, what)
  if class.is_a(loader, data.Loader) and loader.ranks ~= self.size then
    blame.raise(('%s: the loader gives all rows to each of %d ranks: ridge.data.Loader(data, '
      .. '{ world = world, ... })'):format(what, self.size), 'EARG')
  end
end

--- How many batches each rank takes in an epoch, and what its rows count by.
---@param loader table
---@return number batches the fewest that a rank has
---@return number most that a rank has
function Together:begin(loader)
  local n = type(loader.len) == 'function' and tonumber(loader:len()) or -1
  local all = self:gather { n, tonumber(loader.batch) or 1 }
  local least, most = math.huge, 0
  for r, each in ipairs(all) do
    if each[1] < 1 then
      blame.raise(('Trainer:fit: the loader of rank %d does not say how many batches it has '
        .. '(loader:len()), and ranks take the same number'):format(r - 1), 'EARG')
    end
    least, most = math.min(least, each[1]), math.max(most, each[1])
  end
  self.unit = math.max(1, all[1][2])
  return math.floor(least), math.floor(most)
end

--- What the batches of a step count by.
---@param y Tensor targets of the first one
---@param n number of batches
---@return table of, for Batch:run
function Together:of(y, n)
  local each = 1
  for i = 2, #y:size() do each = each * y:size(i) end
  return { first = self.unit, labels = self.unit * math.max(1, each) * n, alone = false,
    ranks = self.size }
end

--- Gradients of a batch that is not the last one of its step stay on this rank; a plan cannot send
--- them either, so with plans they are sent behind it.
---@param last boolean
---@param planned boolean
function Together:open(last, planned)
  self.behind = planned
  self.net.weighs, self.net.rows, self.net.hold = 1, 1, planned or not last
  if planned then parallel.prepare(self.net) end
end

--- A step's gradients and losses become those of all ranks.
---@param group table the step: list (batches, in their order), rows
function Together:close(group)
  if self.behind then parallel.reduce(self.net) end
  self.net.weighs, self.net.hold = nil, false
  local own = {}
  for i, at in ipairs(group.list) do
    own[4 * i - 3], own[4 * i - 2] = at.found.value, at.found.weight or at.rows
    own[4 * i - 1], own[4 * i] = at.rows, at.found.weight and 1 or 0
  end
  local all = self:gather(own)
  group.rows = 0
  for i, at in ipairs(group.list) do
    local sum, weight, rows, counted = 0, 0, 0, false
    for r, each in ipairs(all) do
      local loss, counts = each[4 * i - 3], each[4 * i - 2]
      rows, counted = rows + each[4 * i - 1], counted or each[4 * i] == 1
      if counts > 0 then
        sum, weight = sum + loss * counts, weight + counts
        if loss ~= loss then at.rank = at.rank or r - 1 end
      end
    end
    local loss = weight > 0 and sum / weight or 0
    -- a rank without rows has no loss that tells what it counts
    at.found, group.counted = { value = loss, weight = counted and weight or nil }, counted
    at.rows, group.rows = rows, group.rows + rows
    if loss - loss ~= 0 then group.bad = make.full(0 / 0, 1, { dtype = 'f64' }) end
  end
end

--- An epoch's batches were as many as ranks had agreed on?
---@param done number
---@param all number
function Together:end_of(done, all) -- luacheck: no self
  if done == all then return end
  blame.raise(('Trainer:fit: the loader gave %d batches and had said %d; other ranks wait'):format(
    done, all), 'EARG')
end

--- What an epoch came to on all ranks; the slowest one says how long it took. Running statistics
--- that each has kept by itself become those of rank 0, which are saved.
---@param row table seconds, rows_per_s, peak_bytes, which are changed
---@param stopping boolean is a stop asked for here?
---@param rows number of all ranks
---@return boolean stopping anywhere
function Together:ended(row, stopping, rows)
  local any = false
  self:settle()
  for _, each in ipairs(self:gather { row.seconds, row.peak_bytes, stopping and 1 or 0 }) do
    row.seconds, row.peak_bytes = math.max(row.seconds, each[1]), math.max(row.peak_bytes, each[2])
    any = any or each[3] > 0
  end
  row.rows_per_s = rows / row.seconds
  return any
end

--- The sums of all ranks, in their order; nil where no rank has one.
---@param sums table of numbers, up to n, with gaps
---@param n number
---@return table
function Together:add(sums, n)
  local own, out = {}, {}
  for i = 1, n do own[i], own[n + i] = sums[i] or 0, sums[i] and 1 or 0 end
  for _, each in ipairs(self:gather(own)) do
    for i = 1, n do
      if each[n + i] > 0 then out[i] = (out[i] or 0) + each[i] end
    end
  end
  return out
end

--- Running statistics become those of rank 0.
function Together:settle() parallel.settle(self.net) end

-- -- Random numbers -------------------------------------------------------------------------------

--- The streams of all ranks, which draw different numbers.
---@param state table of this rank's
---@return table list of states, from that of rank 0
function Together:streams(state)
  local list = {}
  for r, each in ipairs(self:gather { state.seed, state.offset }) do
    list[r] = { seed = each[1], offset = each[2] }
  end
  return list
end

--- The stream of this rank out of a state, which may be of another number of ranks.
---@param state table stream, streams
---@return table
function Together:stream(state)
  local own = state.streams and state.streams[self.rank + 1]
  if own or self.rank == 0 then return own or state.stream end
  return { seed = (state.stream.seed + self.rank * 0x9e3779b1) % 2 ^ 53,
    offset = state.stream.offset }
end

--- What a step of all ranks means for the learning rate, in a line.
---@param rows number of a step of one rank
---@param lr number
---@return string
function Together:hint(rows, lr)
  return ('%d ranks: a step takes %d rows, %d times those of one rank. lr is %g, as it was given; '
    .. 'where that was right for %d rows, %d times as much is often right here (%g), reached over '
    .. 'some epochs (Goyal et al., 2017)'):format(self.size, rows * self.size, self.size, lr, rows,
    self.size, lr * self.size)
end

--- The world of a model that ranks train, nil for others.
---@param model any
---@return table|nil
function M.world(model) return parallel.is(model) and model.world or nil end

--- Who trains a model together, nil where this rank is alone.
---@param model table
---@param compile boolean|nil as the trainer has it
---@return table|nil
function M.of(model, compile)
  if not parallel.is(model) then return nil end
  if model.world.size == 1 then
    model.hold = compile or false -- there is nothing to average, and a plan could not
    return nil
  end
  return Together(model)
end

--- The model as ranks train it.
---@param model table
---@param world table|nil
---@return table
function M.wrap(model, world)
  if world ~= nil and not worlds.is(world) then
    blame.raise('Trainer: world is what ridge.dist.init gives, got ' .. blame.show(world), 'EARG')
  end
  if not world or world.size == 1 or parallel.is(model) then return model end
  return parallel.DataParallel(model)
end

return M
