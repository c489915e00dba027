-- SPDX-License-Identifier: MIT
--- What training says and refuses, each sentence with its code, as approved: lines of its log over
--- rows by hand, options that do not go together, files that are something else, states, levels.

local approved = dofile 'tests/lua/approved.lua'
local checkpoint = require 'ridge.train.checkpoint'
local file = require 'ridge.train.file'
local folders = dofile 'tests/lua/store/folder.lua'
local log = require 'ridge.train.log'
local memory = require 'ridge.memory'
local told = dofile 'tests/lua/told.lua'
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function nothing() end

local function net() return nn.Linear(3, 2, { seed = 1 }) end

local function batch(rows)
  return ridge.randn(rows, 3, { generator = ridge.generator(1) }), ridge.zeros(rows):to 'i64'
end

-- A loader of batches as they are, which says how many there are, or what it is told to.
local function feed(list, len)
  return { len = len and function() return len end or nil, each = function()
    local i = 0
    return function()
      i = i + 1
      if list[i] then return unpack(list[i]) end
    end
  end }
end

describe('what training says', function()
  local out, folder

  before_each(function() out, folder = {}, folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function add(...) out[#out + 1] = table.concat({ ... }, ' ') end

  -- What a call gives or refuses, under a name.
  local function try(name, f, ...)
    local ok, found = pcall(f, ...)
    add(name .. ':', ok and told.value(found) or told.failure(found))
  end

  local function check(name)
    local text = table.concat(out, '\n'):gsub(folder:gsub('%p', '%%%0'), 'FOLDER')
    text = text:gsub('_spec%.lua:%d+', '_spec.lua'):gsub('0x%x+', '0x')
    approved.check('train/' .. name, text)
  end

  it('in lines and sums is what was approved', function()
    local stats = memory.stats
    finally(function() memory.stats = stats end)
    function memory.stats(device)
      return { live = 3 * 2 ^ 20, peak = 7.5 * 2 ^ 20, device = device }
    end
    local row = { epoch = 1, loss = 1.25, not_finite = 0, seconds = 2, rows_per_s = 1234.5,
      peak_bytes = 5 * 2 ^ 20 }
    local function other(more)
      local made = {}
      for key, value in pairs(row) do made[key] = value end
      for key, value in pairs(more) do made[key] = value end
      return made
    end
    add(log.epoch(row, 3, { row }))
    add(log.epoch(other { not_finite = 1, val_loss = 0.5 }, 3, { row }))
    local first, best = other { accuracy = 0.5 }, other { epoch = 2, accuracy = 0.75 }
    for _, accuracy in ipairs { 0.75, 0.7425, 0.738, 0.25, 0.8 } do
      local last = other { epoch = 4, accuracy = accuracy, val_loss = 2, not_finite = 3 }
      add(log.epoch(last, 9, { first, best, other { epoch = 3, accuracy = 0.75 }, last }))
    end
    local at = { epoch = 2, epochs = 3, batch = 4, sum = 3, weight = 4, seconds = 1.26 }
    add(log.batch(at))
    at.batches, at.weight = 10, 0
    add(log.batch(at))
    at.weight = 0.5
    add(log.batch(at))
    local function trainer(seconds, before, began, trained)
      local curve = {}
      for i, s in ipairs(seconds) do curve[i] = { seconds = s } end
      return { curve = curve, history = {}, steps_before = before, began_s = began,
        trained_s = trained, batch = { place = function() return 'cpu' end } }
    end
    local status = { epoch = 3, config = { plans = 2, clip = false, a_word = 'f16' } }
    for _, each in ipairs { trainer({}, 0, 0, 0), trainer({}, 4, 1, 10), trainer({ 2 }, 0, 0, 2.5),
        trainer({ 12, 15, 16 }, 1, 10, 18) } do
      local s = log.summary(each)
      add(told.value(s))
      add(log.report(s, status))
    end
    check 'lines'
  end)

  it('of options that do not go together is what was approved', function()
    local layer, x, y = net(), batch(4)
    local sgd = optim.SGD(layer, { lr = 0.5 })
    local said
    local function make(opts)
      said = {}
      opts.say = function(line) said[#said + 1] = line end
      return ridge.Trainer(layer, opts)
    end
    local function options(name, opts)
      try(name, function()
        local o = make(opts).options
        return { o.lr, o.accumulate, o.autocast, o.compile, optimizer = tostring(o.optimizer),
          groups = #o.optimizer.groups, said = said }
      end)
    end
    try('no module', ridge.Trainer, 3, {})
    options('nothing', {})
    options('rate', { lr = 0.25 })
    options('loss', { lr = 1, loss = {} })
    options('stability and clip', { lr = 1, stability = {}, clip = 1 })
    options('stability and scaler', { lr = 1, stability = {}, scaler = optim.GradScaler() })
    options('effective and accumulate', { lr = 1, effective_batch_size = 8, accumulate = 2 })
    options('effective', { lr = 1, effective_batch_size = 8, batch = 2 })
    options('effective of mini', { lr = 1, effective_batch_size = 9, mini_batch_size = 3,
      batch = 2 })
    options('no multiple', { lr = 1, effective_batch_size = 9, mini_batch_size = 2 })
    options('meta as a pattern', { lr = 1, meta_learning_rate = 0.5, meta = '^bias$' })
    options('meta as a function', { lr = 1, meta = function(name) return name == 'weight' end })
    options('meta is all', { lr = 1, meta_learning_rate = 0.5, meta = '.' })
    options('meta is none', { lr = 1, meta = 'zork' })
    options('meta is no pattern', { lr = 1, meta = '[' })
    options('meta of one of your own', { optimizer = sgd, meta = 'bias' })
    options('a rate of no parameter', { lr = 1, meta_learning_rate = 0.125 })
    options('another rate', { optimizer = sgd, lr = 0.25 })
    options('the same rate', { optimizer = sgd, lr = 0.5 })
    options('no optimizer', { optimizer = {} })
    options('of another model', { optimizer = optim.SGD(net(), { lr = 1 }) })
    options('schedule', { lr = 1, schedule = {} })
    options('schedule made', { lr = 1, schedule = function(o)
      return optim.StepLR(o, { every = 1 })
    end })
    options('width', { lr = 1, width = 3 })
    options('layers', { lr = 1, layers = 3 })
    options('level', { lr = 1, level = 'zork' })
    options('level basic', { lr = 1, level = 'basic' })
    options('compile alone', { lr = 1, compile = true, accumulate = 3 })
    options('compile as a level', { lr = 1, recompute = true, compile = true, autocast = 'bf16',
      effective_batch_size = 8, batch = 4, memory_format = true, flash_attention = true,
      workers = 2 })
    options('device', { lr = 1, device = 'cpu' })
    try('no parameters', ridge.Trainer, nn.ReLU(), { lr = 1 })

    local function fit(name, opts, loader, epochs)
      opts.lr = 0
      try(name, function()
        local t = make(opts)
        t:fit(loader, epochs or { epochs = 1 })
        local kept = {}
        for _, line in ipairs(said) do
          if not line:find '^epoch' and not line:find '^allocated' then kept[#kept + 1] = line end
        end
        local c = t:status().config
        return { steps = #t.curve, mini = c.mini_batch_size, accumulate = c.accumulate,
          effective = c.effective_batch_size, said = kept }
      end)
    end
    local function loader(opts) return ridge.data.Loader({ x, y }, opts) end
    fit('loader', {}, 3)
    fit('tensors', {}, { x, y })
    fit('tensors by two', { batch = 2 }, { x, y })
    fit('tensors by more than there are', { batch = 5 }, { x, y })
    fit('no tensors', {}, { 1, 2 })
    fit('nothing in it', {}, feed {})
    fit('no pair', {}, feed { { x } })
    fit('no tensor', {}, feed { { x, 'label' } })
    fit('nor there', {}, feed { { 'input', y } })
    fit('a number', {}, feed { { ridge.full(1), y } })
    fit('no rows', {}, feed { { x, y }, { ridge.zeros(0, 3), ridge.zeros(0):to 'i64' } })
    fit('validate', {}, { x, y }, { epochs = 1, validate = 5 })
    fit('mini and the loader', { mini_batch_size = 3 }, loader { batch = 2 })
    fit('mini as the loader', { mini_batch_size = 2 }, loader { batch = 2 })
    fit('batch and the loader', { batch = 3 }, loader { batch = 2 })
    fit('effective of the loader', { effective_batch_size = 4 }, loader { batch = 2 })
    fit('effective of nobody', { effective_batch_size = 4 }, feed { { x, y } })
    fit('no multiple of the loader', { effective_batch_size = 5 }, loader { batch = 2 })
    fit('threads', { workers = 1 }, loader { batch = 2 })
    fit('threads of a feed', { workers = 2 }, feed { { x, y } })
    fit('no threads of a feed', { workers = 0 }, feed { { x, y } })
    fit('nan', { loss = function(o) return o:sum() * (0 / 0) end }, feed { { x, y } })
    fit('not finite', { loss = function(o) return o:sum() * 0 + 1 / 0 end }, feed { { x, y } })
    local t = make { lr = 1 }
    try('validate nothing', t.validate, t, feed {})
    try('validate a number', t.validate, t, 4)
    for _, given in ipairs { { 4 }, { {} }, { { loss = 'low' } }, { { 3 } }, { { step = 1 } },
        { { seconds = 1 } }, { { low = 1 }, 'soon' }, { { low = 1 }, 0 / 0 },
        { { low = 1 }, 1 / 0 }, { { low = 1 }, 7 } } do
      try('record', function()
        t:record(given[1], given[2])
        return t.metrics[#t.metrics]
      end)
    end
    for _, given in ipairs { { 3 }, { { groups = {} } }, { sgd, { clip = 3 } },
        { sgd, { zork = 1 } } } do
      try('stability', ridge.Stability, unpack(given))
    end
    local s = ridge.Stability(sgd, { clip = {}, guard = { kind = 'skip' } })
    for _, loss in ipairs { 'low', {}, true } do try('stability step', s.step, s, loss) end
    add(tostring(s), told.value(s:summary()))
    for _, history in ipairs { { 5 }, { {} }, { { score = 'high' } } } do
      local state = s:state()
      state.history = history
      try('stability state', s.load_state, s, state)
    end
    for _, given in ipairs { { 3 }, { layer, 3 }, { layer, 'zork' }, { layer, nil, 3 },
        { layer, 'basic', {}, 3 }, { layer, 'custom', { sample = 3 }, nothing },
        { layer, 'custom', { zork = 3 }, nothing } } do
      try('level', ridge.level, unpack(given, 1, 4))
    end
    try('profiles', ridge.profiles, 'zork')
    try('optimize_training', ridge.optimize_training, layer, 3, sgd)
    try('optimize_training', ridge.optimize_training, layer, feed {}, sgd, nil, 3)
    check 'refused'
  end)

  it('of levels is what was approved, but for what the processor has', function()
    local made = {}
    local function block() return nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.ReLU()) end
    made[1] = { 'a layer', net() }
    made[2] = { 'blocks', nn.Sequential(block(), block(), nn.Linear(4, 4)) }
    made[3] = { 'blocks in blocks', nn.Sequential(nn.Sequential(block(), block()), block()) }
    made[4] = { 'one block', nn.Sequential(block(), nn.ReLU()) }
    made[5] = { 'images', nn.Sequential(nn.Conv2d(1, 1, 3), nn.Sequential(nn.Conv2d(1, 1, 3))) }
    made[6] = { 'transformers', nn.Sequential(nn.TransformerBlock(4, { kind = 'matrix' }),
      nn.TransformerBlock(4), nn.TransformerBlock(4, { kind = 'features' })) }
    made[7] = { 'features', nn.MultiHeadAttention(4, { kind = 'features' }) }
    made[8] = { 'tiles', nn.MultiHeadAttention(4) }
    made[9] = { 'nothing', nn.ReLU() }
    for _, each in ipairs(made) do
      for _, case in ipairs { { 'basic' }, { 'Ultra' }, { 'advanced', amp = false, workers = 0 },
          { 'ULTRA', compile = false, recompute = false, accumulate = 3 },
          { 'custom', amp = false, recompute = true, flash_attention = true } } do
        local level, given, names = case[1], {}, {}
        for name, value in pairs(case) do
          if name ~= 1 then
            given[name] = value
            names[#names + 1] = ('%s=%s'):format(name, tostring(value))
          end
        end
        table.sort(names)
        add('--', each[1], level, unpack(names))
        local opts = ridge.level(each[2], level, given, function(line)
          if not line:find '^amp ' or given.amp == false then add(line) end
        end)
        opts.autocast = nil
        add(told.value(opts))
      end
    end
    local LEVELS = require('ridge.train.level').LEVELS
    for _, name in ipairs { 'basic', 'advanced', 'ultra', 'custom' } do
      add(name, told.value(LEVELS[name]))
    end
    for _, name in ipairs { 'fast_training', 'memory_constrained', 'high_throughput' } do
      add(name, told.value(ridge.profiles(name)))
    end
    check 'levels'
  end)

  it('of files is what was approved', function()
    local x = ridge.tensor { 1, 2 }
    for _, given in ipairs { { 3, { x = x } }, { 'F' }, { 'F', 3 }, { 'F', { x = x }, 3 },
        { 'F', { x = x }, { 'note' } }, { 'F', { x = x }, { note = 3 } }, { 'F', { x } },
        { 'F', { __metadata__ = x } }, { 'F', { x = 3 } }, { 'F', x }, { 'F.npy', {} },
        { 'F.npy', { x = x, y = x } }, { 'F.npy', { x = 3 } }, { 'F.npy', { x = x }, { a = 'b' } },
        { 'F.npy', { x = x }, {} }, { 'F.npy', x }, { 'F.NPY', { x = x } }, { 'F', {} },
        { 'F', { x = x }, {} }, { 'F', { x = x }, { note = 'text' } }, { 'F.d/F', { x = x } } } do
      local path = type(given[1]) == 'string' and folder .. '/' .. given[1] or given[1]
      try('save ' .. told.value(given[1]), file.save, path, given[2], given[3])
    end
    for ending in ('npz csv tsv txt json lua pt pth ckpt pkl h5 hdf5 onnx gguf mat png db gz zip '
        .. 'xz zst PT safetensors bin x.pt/y'):gmatch '%S+' do
      try('save .' .. ending, file.save, folder .. '/no/F.' .. ending, { x = x })
    end
    try('load', file.load, 3)
    try('load none', file.load, folder .. '/none')
    try('load a folder', file.load, folder)
    local path = folder .. '/some'
    local function length(n)
      local text = ''
      for _ = 1, 8 do text, n = text .. string.char(n % 256), math.floor(n / 256) end
      return text
    end
    local function load_of(name, text)
      local to = assert(io.open(path, 'wb'))
      to:write(text)
      to:close()
      try(name, file.load, path)
    end
    for _, start in ipairs { '\31\139', 'PK\3\4', 'SQLite', '\137PNG', '\128\2', '\128\4',
        '\137HDF', 'GGUF', '\127ELF', '\147NUMPY', '\0\0\8\1', '\0\0\14\8', '\0\0\7\1', '\0\0\15\1',
        '\0\0\8\9', '\0\1\8\1', 'epoch,lo', 'h\195\169llo\n\t\r', '1234567\195', '1234567\255',
        '\1epoch,l' } do
      local name = start:gsub('[%c\127-\255]', function(c) return ('\\%d'):format(c:byte()) end)
      load_of(name, start .. ('\0'):rep(8 - #start) .. ('z'):rep(99))
    end
    load_of('short', '1234567')
    load_of('a length alone', length(0))
    load_of('no JSON', length(4) .. 'nope')
    load_of('a JSON number', length(1) .. '4')
    load_of('a header cut off', length(300) .. ('\1'):rep(20))
    load_of('the longest header', length(2 ^ 24) .. '\1')
    load_of('a longer one', length(2 ^ 24 + 1) .. '\1')
    local function entry(name, text, bytes)
      load_of(name .. ' ' .. text, length(#text) .. text .. ('\0'):rep(bytes))
    end
    local ONE = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'
    entry('one', '{"a":{' .. ONE .. '}}', 4)
    entry('cut', '{"a":{' .. ONE .. '}}', 3)
    entry('more', '{"a":{' .. ONE .. '}}', 5)
    entry('notes', '{"__metadata__":{"n":"t","m":3},"a":{' .. ONE .. '}}', 4)
    entry('no notes', '{"__metadata__":3,"a":{' .. ONE .. '}}', 4)
    for _, text in ipairs { '3', '{}', '{"dtype":"F32"}', '{"dtype":"F31","shape":[1],'
        .. '"data_offsets":[0,4]}', '{"dtype":"F32","shape":1,"data_offsets":[0,4]}',
        '{"dtype":"F32","shape":[1],"data_offsets":4}', '{"dtype":"F32","shape":["1"],'
        .. '"data_offsets":[0,4]}', '{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}',
        '{"dtype":"F32","shape":[0.25],"data_offsets":[0,1]}',
        '{"dtype":"F32","shape":[1],"data_offsets":[0,5]}',
        '{"dtype":"F32","shape":[1],"data_offsets":["0",4]}',
        '{"dtype":"F32","shape":[1],"data_offsets":[4,8]}',
        '{"dtype":"F32","shape":[],"data_offsets":[0,4]}',
        '{"dtype":"F64","shape":[0],"data_offsets":[0,0]}',
        '{"dtype":"U8","shape":[1,1,1,1,1,1,1,4],"data_offsets":[0,4]}',
        '{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}' } do
      entry('entry', '{"a":' .. text .. '}', 4)
    end
    entry('two', '{"a":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},"b":{"dtype":"U8","shape":'
      .. '[2],"data_offsets":[2,4]},"c":{"dtype":"I8","shape":[1,2],"data_offsets":[0,2]}}', 4)
    entry('overlap', '{"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},"c":{"dtype":"I8",'
      .. '"shape":[2],"data_offsets":[0,2]}}', 4)
    try('checkpoint none', checkpoint.load, folder .. '/none')
    local function of(name, tensors, notes)
      file.save(path, tensors, notes)
      try('checkpoint ' .. name, checkpoint.load, path)
    end
    local function bytes(text)
      local list = { text:byte(1, -1) }
      return ridge.tensor(list, { dtype = 'u8' })
    end
    local GOOD = '{"epoch":0,"format":"2"}'
    of('of other tensors', { x = x })
    for _, notes in ipairs { { a = 'b' }, { ridge = '3' }, { ridge = '{"format":"1"}' },
        { ridge = 'nope' }, { ridge = GOOD } } do
      of('notes ' .. told.value(notes), { ['ridge.state'] = bytes '{"seconds":3}' }, notes)
    end
    for _, text in ipairs { '3', 'nope', '{}', '{"a":{"tensor":"b"}}', '{"a":{"tensor":"model.w"}}',
        '{"a":{"number":"nan"},"b":{"number":"-inf"},"c":{"number":"inf"},"d":[{"number":"-0"}]}',
        '{"a":{"number":"zork"}}', '{"a":{"rows":2,"columns":{"n":{"values":"v","there":"t"}}}}',
        '{"a":{"rows":3,"columns":{"n":{"values":"v","there":"t"}}}}',
        '{"a":{"rows":2,"columns":{"n":{"values":"t","there":"t"}}}}',
        '{"a":{"rows":2,"columns":{"n":{"values":"v"}}}}',
        '{"a":{"rows":2,"columns":{"n":{"values":"v","there":"t","words":["yes","no"]}}}}' } do
      of('state ' .. text, { ['ridge.state'] = bytes(text), ['model.w'] = x, ['optimizer.m'] = x,
        v = bytes(('\0'):rep(6) .. '\240\63' .. ('\0'):rep(7) .. '\64'), t = bytes '\1\1' },
        { ridge = GOOD })
    end
    of('state in other elements', { ['ridge.state'] = x }, { ridge = GOOD })
    check 'files'
  end)
end)
