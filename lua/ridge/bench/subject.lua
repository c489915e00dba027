-- SPDX-License-Identifier: MIT
--- What is measured of a model at a batch size: its input, its plan, what it costs, what it holds.

local blame = require 'ridge.blame'
local memory = require 'ridge.memory'
local profile = require 'ridge.profile'

local M = {}

-- The layers in a module, in order.
local function layers_of(module, out)
  if module.facts then out[#out + 1] = module end
  for _, child in ipairs(module.children or {}) do layers_of(child.module, out) end
  return out
end

--- The input of a module: random numbers, the same for the same seed.
---@param shape table of one sample
---@param batch integer
---@param dtype string
---@param seed integer
---@param device string|nil 'cuda:0' ...; the CPU when left out
---@return Tensor [batch x shape]
function M.input(shape, batch, dtype, seed, device)
  local ridge = require 'ridge'
  local sizes = { batch }
  for _, n in ipairs(shape) do sizes[#sizes + 1] = n end
  sizes[#sizes + 1] = { generator = ridge.generator(seed), device = device }
  local x = ridge.randn(unpack(sizes))
  return dtype == 'f32' and x or x:to(dtype)
end

--- The shape of one sample: as given, else what the first layer takes.
---@param module table
---@param given table|integer|nil
---@return table shape
function M.shape(module, given)
  if type(given) == 'number' then return { given } end
  if given then return given end
  local first = layers_of(module, {})[1]
  if not first then
    blame.raise('bench: input_shape, the shape of one sample, is missing: this model has no layer '
      .. 'that says it', 'EARG', 'bench')
  end
  return { first:facts().n_in }
end

--- The element type of a module's weights; f32 where it has none.
---@param module table
---@return string dtype
function M.dtype(module)
  local first = layers_of(module, {})[1]
  return first and first:facts().dtype or 'f32'
end

--- What one call costs at best: from the plan, with the products by fixed signs apart.
---@param module table
---@param compiled table plan
---@param x Tensor
---@return table cost flops, sign_flops, bytes, dtype
function M.cost(module, compiled, x)
  local facts, signs = compiled:facts(), 0
  local rows = x.count / x.shape[#x.shape]
  for _, layer in ipairs(layers_of(module, {})) do
    local f = layer:facts()
    if f.num_terms > 0 then signs = signs + 2 * rows * (f.stored_count - f.trainable_count) end
  end
  return { flops = facts.flops, bytes = facts.bytes, dtype = x.dtype,
           sign_flops = signs > 0 and math.min(signs, facts.flops) or nil }
end

--- Bytes that a model and its input hold whether it runs or not.
---@param module table
---@param x Tensor
---@return number bytes
function M.held(module, x)
  local bytes = x.bytes + (module.num_bytes and module:num_bytes() or 0)
  for _, layer in ipairs(layers_of(module, {})) do bytes = bytes + layer:facts().packed_bytes end
  return bytes
end

--- Memory of a call, in passes of its own and from the allocator: what is held, and on top the
--- highest, and the mean over the time of the operations.
---@param forward function
---@param held number bytes
---@param device string|nil whose memory; the CPU's when left out
---@return number peak bytes
---@return number average bytes
function M.memory(forward, held, device)
  local peak = memory.peak_of(forward, device)
  local before = memory.stats(device).live
  local sum, time = 0, 0
  memory.scope(function() profile.trace(forward) end)
  for event in profile.events() do
    local ns = math.max(event.end_ns - event.begin_ns, 1)
    sum, time = sum + (event.live_bytes - before) * ns, time + ns
  end
  local average = time > 0 and sum / time or 0
  return held + peak, held + math.min(math.max(average, 0), peak)
end

--- A model at a batch size, ready to be timed.
---@param module table or a function of the input
---@param opt table shape, batch, dtype, seed, threads; device, where the module is already
---@return table subject plan, cost, peak, average (bytes), held
function M.new(module, opt)
  local is_function = type(module) == 'function'
  if is_function and not opt.shape then
    blame.raise('bench: a function needs input_shape, the shape of one sample', 'EARG', 'bench')
  end
  local holder = is_function and {} or module
  local x = M.input(M.shape(holder, opt.shape), opt.batch, opt.dtype or M.dtype(holder), opt.seed,
    opt.device)
  local inference = require('ridge').inference
  local function forward() return inference(module, x) end
  local compiled = require('ridge.capture').capture(forward)
  local held = M.held(holder, x)
  local peak, average = M.memory(forward, held, opt.device)
  return { plan = compiled, cost = M.cost(holder, compiled, x), peak = peak, average = average,
           held = held, forward = forward, x = x }
end

return M
