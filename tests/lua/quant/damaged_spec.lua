-- SPDX-License-Identifier: MIT
-- Files of quantized and pruned nets that are damaged, or made to do harm: a net that works or one
-- sentence, never a crash nor an error of Lua's own.  RIDGE_SOAK=N tries N times as many damages.
local ridge = require 'ridge'
local sparse = require 'ridge.tensor.sparse'
local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local ffi = require 'ffi'
local folders = dofile 'tests/lua/store/folder.lua'
local nn = ridge.nn

local SOAK = tonumber(os.getenv 'RIDGE_SOAK') or 1
local SEED = tonumber(os.getenv 'RIDGE_SEED') or 1
local NOTE = 'ridge.model'

local folder = folders.in_memory()
local path = folder .. '/x.safetensors'

-- -- Nets -----------------------------------------------------------------------------------------

local function data(...)
  local sizes = { 16, ... }
  sizes[#sizes + 1] = { generator = ridge.generator(3) }
  return ridge.data.Loader({ ridge.randn(unpack(sizes)), ridge.zeros(16) }, { batch = 8 })
end

local function dense()
  return nn.Sequential(nn.Linear(32, 18, { activation = 'relu', seed = 1 }), nn.LayerNorm(18),
    nn.Linear(18, 4, { seed = 2 })):eval()
end

local function images()
  return nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1, seed = 1 }), nn.BatchNorm(4), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3, { seed = 2 })):eval()
end

-- Each kind of file: the net, and what goes into it.
local function samples()
  ridge.seed(SEED)
  local list = {}
  local function add(name, net, ...)
    list[#list + 1] = { name = name, net = net, sizes = { ... } }
  end
  add('dynamic', ridge.quant.dynamic(dense(), { rows = false }), 3, 32)
  add('static', ridge.quant.static(dense(), { calibrate = data(32), rows = false }), 3, 32)
  add('static images', ridge.quant.static(images(), { calibrate = data(2, 4, 4), rows = false }),
    2, 2, 4, 4)
  add('static i8 images', ridge.quant.static(images(), { calibrate = data(2, 4, 4), rows = false,
    activations = 'i8' }), 2, 2, 4, 4)
  for _, bits in ipairs { 2, 3, 4, 6, 8 } do
    add(bits .. ' bits', ridge.quant.weights(dense(), { bits = bits, pad = true, rows = false,
      group = 32 }), 3, 32)
  end
  add('bf16', ridge.quant.half(dense(), 'bf16'), 3, 32)
  add('masked', ridge.prune.magnitude(dense(), { sparsity = 0.6 }), 3, 32)
  add('masked rows', ridge.prune.magnitude(images(), { sparsity = 0.5, pattern = 'row' }),
    2, 2, 4, 4)
  for _, format in ipairs { 'rows', 'blocks', 'n:m' } do
    add(format, ridge.prune.compact(ridge.prune.magnitude(dense(), { pattern = '1:2' }),
      { format = format }), 3, 32)
  end
  add('shrunk', ridge.prune.shrink(images(), ridge.randn(2, 2, 4, 4), { share = 0.5,
    time = false, control = false }), 2, 2, 4, 4)
  for _, s in ipairs(list) do
    s.net:save(path)
    s.text = folders.get(path)
    s.tensors, s.notes = ridge.load(path)
  end
  return list
end

-- -- What becomes of a file -----------------------------------------------------------------------

local QUIET = { write = function() end }

-- Read it, look at it, use it, write it: all that a net can be asked.
local function use(sizes)
  local net = nn.load(path)
  local steps = {
    function() return net(ridge.ones(unpack(sizes))) end,
    function() return ridge.inference(net, ridge.ones(unpack(sizes))) end,
    function() return tostring(net) end,
    function() return net:state() end,
    function() return net:clone()(ridge.ones(unpack(sizes))) end,
    function() return net:to 'bf16' end,
    function() return tostring(ridge.prune.analyze(net)) end,
    function() return tostring(ridge.quant.report(net)) end,
    function() return tostring(select(2, ridge.prune.compact(net, { format = 'rows' }))) end,
    function() return tostring(ridge.quant.report(ridge.quant.half(net))) end,
    function() return net:save(folder .. '/again.safetensors') end,
    function() return net:train()(ridge.ones(unpack(sizes))) end,
  }
  for i, step in ipairs(steps) do
    local ok, err = pcall(step)
    if not ok and not blame.is_error(err) then
      error(('step %d: %s'):format(i, tostring(err)), 0)
    end
  end
end

-- Raises what is no sentence about the file.
local function tried(sizes)
  local stderr = io.stderr
  io.stderr = QUIET -- luacheck: ignore 122
  local ok, err = pcall(use, sizes)
  io.stderr = stderr -- luacheck: ignore 122
  if ok then return end
  if not blame.is_error(err) then error('an error of Lua itself: ' .. tostring(err), 0) end
  if not tostring(err.message):find(folder, 1, true) then
    error('names no file: ' .. tostring(err.message), 0)
  end
end

-- -- Damages --------------------------------------------------------------------------------------

local ODD = { -1, 0, 1, 0.5, 2, 3, 7, 16, 17, 33, 255, 256, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 53, -2 ^ 31,
  1e300, true, false, '', 'relu', 'u8', 'i8', 'f32', 'blocks', 'rows', 'n:m', '2:4', 'x', {},
  { 1 }, { ['$module'] = 1 }, { ['$module'] = 99 }, { a = 1 } }

-- The tree of modules with one thing in it changed, taken away, or put where another was.
local function changed(tree)
  local places = {}
  local function walk(t)
    for key, value in pairs(t) do
      places[#places + 1] = { t = t, key = key }
      if type(value) == 'table' then walk(value) end
    end
  end
  walk(tree)
  local at = places[math.random(#places)]
  local how = math.random(5)
  if how == 1 then
    at.t[at.key] = nil
  elseif how == 2 then
    local other = places[math.random(#places)]
    -- what holds itself has no text
    local ok, text = pcall(canonical.encode, other.t[other.key])
    if ok then at.t[at.key] = canonical.decode(text) end
  else -- a copy: what is put into it another time would be a circle
    at.t[at.key] = canonical.decode(canonical.encode(ODD[math.random(#ODD)]))
  end
end

local TYPES = { 'f32', 'f64', 'bf16', 'f16', 'i8', 'u8', 'i32', 'i64', 'bool' }

-- One of the tensors in another type, of another size, with other numbers, or not there.
local function other_tensors(tensors)
  local names, out = {}, {}
  for name, x in pairs(tensors) do names[#names + 1], out[name] = name, x end
  table.sort(names)
  local name = names[math.random(#names)]
  local x, how = out[name], math.random(6)
  if how == 1 then
    out[name] = nil
  elseif how == 2 then
    out[name] = x:to(TYPES[math.random(#TYPES)])
  elseif how == 3 then
    out[name] = x:reshape(-1)
  elseif how == 4 and x.count > 0 then
    out[name] = x:reshape(-1):narrow(1, 1, math.random(0, x.count)):contiguous()
  elseif how == 5 then
    out[name] = ridge.concat({ x:reshape(-1), x:reshape(-1) }, 1)
  elseif x.dtype ~= 'bool' then
    local drawn = (ridge.randn(math.max(x.count, 1)) * 10 ^ math.random(-3, 9))
    out[name] = drawn:to(x.dtype):narrow(1, 1, x.count):reshape(unpack(x:size()))
  end
  return out
end

-- Bits, bytes and pieces of what was there.
local function other_bytes(text)
  local bytes = ffi.new('uint8_t[?]', #text)
  ffi.copy(bytes, text, #text)
  for _ = 1, math.random(4) do
    local at = math.random(9, #text) - 1
    if math.random(2) == 1 then
      bytes[at] = bit.bxor(bytes[at], bit.lshift(1, math.random(0, 7)))
    else
      local from, n = math.random(9, #text) - 1, math.random(8)
      n = math.min(n, #text - from, #text - at)
      ffi.copy(bytes + at, text:sub(from + 1, from + n), n)
    end
  end
  return ffi.string(bytes, #text)
end

local function write(sample)
  local how = math.random(3)
  if how == 1 then return folders.put(path, other_bytes(sample.text)) end
  local tensors, note = sample.tensors, sample.notes[NOTE]
  if how == 2 then
    local tree = canonical.decode(note)
    for _ = 1, math.random(2) do changed(tree) end
    local ok, text = pcall(canonical.encode, tree)
    if not ok then return write(sample) end
    note = text
  else
    tensors = other_tensors(tensors)
  end
  ridge.save(path, tensors, { [NOTE] = note })
end

describe('a damaged file of a quantized or pruned net', function()
  teardown(function() folders.remove(folder) end)

  it('is refused in a sentence, or is a net', function()
    local list = samples()
    math.randomseed(SEED)
    for i = 1, 12 * SOAK do
      for _, sample in ipairs(list) do
        write(sample)
        local kept = folders.get(path)
        local ok, err = pcall(tried, sample.sizes)
        if not ok and os.getenv 'RIDGE_KEEP' then folders.put(os.getenv 'RIDGE_KEEP', kept) end
        assert.is_true(ok, ('seed %d, damage %d of %s: %s'):format(SEED, i, sample.name,
          tostring(err)))
      end
    end
  end)

  it('lacks what no layer of its class is without', function()
    local function said(net, change)
      net:save(path)
      local tensors, notes = ridge.load(path)
      local tree = canonical.decode(notes[NOTE])
      change(tree.modules)
      ridge.save(path, tensors, { [NOTE] = canonical.encode(tree) })
      local ok, err = pcall(nn.load, path)
      assert.is_false(ok)
      assert.is_true(blame.is_error(err), tostring(err))
      assert.matches(path, err.message, 1, true)
      return err.message
    end
    local function first(class, list)
      for _, record in ipairs(list) do
        if record.class == class then return record end
      end
    end
    local conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2))
    for class, other in pairs { ['nn.Conv2d'] = 'nn.MaxPool2d', ['nn.MaxPool2d'] = 'nn.Conv2d' } do
      for _, value in ipairs { 1, 'the struct of the other' } do
        assert.matches('the field options of a ' .. class, said(conv, function(list)
          first(class, list).fields.options = value == 1 and 1
            or first(other, list).fields.options
        end))
      end
    end
    assert.matches('the field kernel of a nn.Conv2d', said(conv, function(list)
      first('nn.Conv2d', list).fields.kernel = canonical.list { 'x', 3 }
    end))
    local bytes = ridge.quant.static(nn.Sequential(nn.Conv2d(1, 2, 3)):eval(),
      { calibrate = data(1, 4, 4), rows = false })
    for name, value in pairs { padding = canonical.list { 0, 0, canonical.list { 1 }, 0 },
      stride = 1, dilation = canonical.list { 1, 'x' }, groups = 'x', layout = 'x' } do
      assert.matches('the field conv of a quant.Conv2d', said(bytes, function(list)
        first('quant.Conv2d', list).fields.conv[name] = value
      end), name)
    end
    assert.matches('the tensor weight of a nn.Linear', said(nn.Sequential(nn.Linear(2, 2)),
      function(list) table.remove(first('nn.Linear', list).params, 1) end))
    local norm = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2))
    for _, name in ipairs { 'running_mean', 'running_var' } do
      assert.matches('the tensor ' .. name .. ' of a nn.BatchNorm', said(norm, function(list)
        local params = first('nn.BatchNorm', list).params
        for at = #params, 1, -1 do
          if params[at].name == name then table.remove(params, at) end
        end
      end))
    end
    local one = nn.Sequential(nn.Linear(2, 2))
    assert.matches("'nn.Sequential' is in itself", said(one, function(list)
      list[1].children[1].module = 1
    end))
    assert.matches("'nn.Sequential' is in itself", said(one, function(list)
      first('nn.Linear', list).fields.other = { deep = { ['$module'] = 1 } }
    end))
    assert.matches("training of nn.Linear is 'no'", said(one, function(list)
      first('nn.Linear', list).fields.training = 'no'
    end))
  end)

  it('may be cut while its tensors wait to be read', function()
    local text = samples()[1].text
    math.randomseed(SEED)
    for _ = 1, 10 * SOAK do
      folders.put(path, text)
      local lazy = ridge.load(path, { lazy = true, over = 0 })
      folders.put(path, text:sub(1, math.random(0, #text)))
      for name, x in pairs(lazy) do
        local ok, err = pcall(x.sum, x)
        if not ok then
          assert.is_true(blame.is_error(err), name .. ': ' .. tostring(err))
          assert.matches('x.safetensors', tostring(err), 1, true)
        end
      end
    end
  end)

  it('has places of other weights, and products read only what is there', function()
    math.randomseed(SEED)
    for _ = 1, 40 * SOAK do
      local rows, k, n = math.random(0, 40), math.random(0, 70), math.random(0, 60)
      local x = ridge.randn(math.random(0, 6), k)
      local function whole(most, ...)
        return (ridge.rand(...) * (most + 4) - 2):floor()
      end
      local block = math.random(2) == 1
      local lists = { offset = whole(n, rows + 1):to 'i32', column = whole(k, n):to 'i32',
        values = block and ridge.randn(n, 16) or ridge.randn(n) }
      local tiles, windows = math.ceil(rows / 16), math.ceil(k / 16)
      local entries = windows * math.random(0, 8)
      local some = { index = whole(255, tiles, math.ceil(entries / 2), 16):to 'u8',
        values = ridge.randn(tiles, entries, 16), rows = rows + math.random(-1, 1), columns = k }
      local bits = ({ 2, 3, 4, 6, 8 })[math.random(5)]
      local codes = whole(255, rows, math.ceil(k / 32) * 4 * bits):to 'u8'
      local scale = ridge.randn(rows, math.ceil(k / 32)):to 'f16'
      for _, call in ipairs { function() return ridge.sparse_linear(x, lists) end,
        function() return ridge.sparse_linear(x, some) end,
        function() return ridge.packed_linear(x, codes, scale, { bits = bits }) end } do
        local ok, err = pcall(call)
        assert.is_true(ok or blame.is_error(err), tostring(err))
      end
      -- the matrix of it: what a product with each input alone gives, or its error
      lists.columns = k
      for _, w in ipairs(k > 0 and { lists, some } or {}) do
        local ok, product = pcall(ridge.sparse_linear, ridge.eye(k), w)
        local made, matrix = pcall(sparse.dense, w)
        assert.equal(ok, made, tostring(matrix))
        if ok then
          assert.same(product:t():size(), matrix:size())
          local apart = (product:t() - matrix):abs()
          assert.is_true(apart.count == 0 or apart:max():item() < 1e-5)
        else
          assert.is_true(blame.is_error(matrix), tostring(matrix))
        end
      end
    end
  end)
end)
