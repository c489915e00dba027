-- SPDX-License-Identifier: MIT
-- Devices from Lua: what is said where there is no GPU, and the simulated one where it was built.
local ridge = require 'ridge'

local SIMULATED = 'build/libridge_gpusim.so'

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local WITHOUT = 'no nvcc: the simulated GPU was not built'

local function simulated()
  local file = io.open(SIMULATED)
  return file and file:close() ~= nil
end

describe('a device', function()
  it('that is not there says what is missing', function()
    assert.matches("there is no device 'gpu'; known: 'cpu', 'cuda:0'", message(ridge.zeros, 2,
      { device = 'gpu' }))
    assert.matches('devices end at cuda:15', message(ridge.zeros, 2, { device = 'cuda:99' }))
    assert.matches('/no/such.so: cannot open', output("RIDGE_GPU=/no/such.so ./ridge -e "
      .. "'return ridge.zeros(2, { device = \"cuda\" })'"))
    assert.matches('has no function rg_gpu_plugin', output("RIDGE_GPU=build/libridge.so ./ridge -e "
      .. "'return ridge.ones(2):to \"cuda\"'"))
  end)

  it('is called after the backend that has it: a simulated GPU is no cuda:0', function()
    if not simulated() then return pending(WITHOUT) end
    local said = output('RIDGE_GPU=' .. SIMULATED .. ' ./ridge -e ' .. [['
      local ok, e = pcall(ridge.zeros, 2, { device = "cuda:0" })
      local t = ridge.ones(2):to "sim"
      local p = ridge.nn.Linear(2, 2):to "sim:0"
      print(ok, e.message)
      print(table.concat(ridge.device.names(), " "), ridge.device.best(), t.device,
        p.weight.device, ridge.device.facts("sim").kind, ridge.device.facts("cpu").kind)
      return ridge.ones(2):to "simulated"']])
    assert.matches("^false\t[^\n]*there is no device 'cuda:0'; known: 'cpu', 'sim:0' %.%.%.\n"
      .. 'cpu sim:0\tsim:0\tsim:0\tsim:0\tsim\tcpu\n', said)
    assert.matches("'simulated'", said)
  end)

  it('whose kernels need a library that is missing names it', function()
    local folder = os.tmpname()
    os.remove(folder)
    output(('mkdir %s; cd %s; cc -shared -o libgone.so -x c /dev/null; '
      .. 'cc -shared -o plugin.so -x c /dev/null -L. -Wl,--no-as-needed -lgone; rm libgone.so')
      :format(folder, folder))
    local said = output('RIDGE_GPU=' .. folder .. "/plugin.so ./ridge -e "
      .. "'return ridge.zeros(2, { device = \"cuda\" })'")
    output('rm -r ' .. folder)
    assert.matches("the GPU's kernels are not there: libgone.so: cannot open shared object", said)
  end)

  it('that is simulated computes what the CPU computes', function()
    if not simulated() then return pending(WITHOUT) end
    assert.equal('done\n', output('RIDGE_GPU=' .. SIMULATED
      .. ' ./ridge tests/lua/device_child.lua'))
  end)

  it('joins elementwise functions in plans, without a changed bit', function()
    if not simulated() then return pending(WITHOUT) end
    for _, order in ipairs { 'fwd', 'rev', 'rand:3' } do
      assert.equal('done\n', output('RG_SIM_ORDER=' .. order .. ' RIDGE_GPU=' .. SIMULATED
        .. ' ./ridge tests/lua/fused_child.lua'))
    end
  end)

  it('has streams, events, pinned memory, a timeline (F96, F209)', function()
    if not simulated() then return pending(WITHOUT) end
    for _, order in ipairs { 'fwd', 'rev', 'rand:1', 'rand:2', 'rand:3' } do
      assert.equal('done\n', output(('RG_SIM_ORDER=%s RIDGE_GPU=%s ./ridge '
        .. 'tests/lua/stream_child.lua'):format(order, SIMULATED)), order)
    end
  end)

  it('has memory that is counted, limited and given back (F2 to F4, F13, F200 to F207)', function()
    if not simulated() then return pending(WITHOUT) end
    assert.equal('done\n', output('RIDGE_GPU=' .. SIMULATED
      .. ' ./ridge tests/lua/gpu_memory_child.lua'))
  end)

  it('is asked what it can when a level is switched, not the processor', function()
    if not simulated() then return pending(WITHOUT) end
    for capability, amp in pairs { ['75'] = 'amp +off +not switched: this processor has no prod',
        ['80'] = 'amp +on' } do
      assert.matches(amp, output(('RG_SIM_CAPABILITY=%s RIDGE_GPU=%s ./ridge -e %s'):format(
        capability, SIMULATED,
        [['ridge.level(ridge.nn.Linear(2, 2):to "sim:0", "ultra", nil, print)']])))
    end
  end)

  it('has memory that is full of nan under RIDGE_ALLOC_POISON, as the CPU has', function()
    if not simulated() then return pending(WITHOUT) end
    for _, order in ipairs { 'fwd', 'rev', 'rand:3' } do
      local child = ('RG_SIM_ORDER=%s RIDGE_GPU=%s ./ridge tests/lua/poison_child.lua cpu sim:0')
        :format(order, SIMULATED)
      assert.equal('cpu\told\told\told\nsim:0\told\told\told\n', output(child))
      assert.equal('cpu\tnan\tnan\tnan\nsim:0\tnan\tnan\tnan\n',
        output('RIDGE_ALLOC_POISON=1 ' .. child))
    end
  end)

  it('asks for no memory for what is empty, also first of all', function()
    if not simulated() then return pending(WITHOUT) end
    for _, layer in ipairs { 'LowRankLinear(4, 3, { rank = 2 })', 'Linear(4, 3)',
      'SKLinear(4, 3, { num_terms = 1, low_rank = 1, warn = false })' } do
      assert.equal('0\t3\n', output(('RIDGE_GPU=%s ./ridge -e %s'):format(SIMULATED,
        [['local x = ridge.zeros(0, 4):to "sim:0"; ]]
          .. ('local y = ridge.inference(ridge.nn.%s:to "sim:0", x); '):format(layer)
          .. [[print(y:size(1), y:size(2))']])))
    end
  end)

  it('tells the versions of its libraries, and opens none to know them', function()
    if not simulated() then return pending(WITHOUT) end
    local text = output('RG_SIM_BLAS_VERSION=130102 RIDGE_CUDNN=simulated RIDGE_NVRTC=simulated '
      .. 'RIDGE_GPU=' .. SIMULATED .. [[ ./ridge -e '
        local ridge = require "ridge"
        local f = ridge.device.facts "sim:0"
        print(f.driver ~= nil, f.runtime ~= nil, f.cublaslt, f.cudnn, f.nvrtc)
        local l = ridge.device.libraries("sim:0", true)
        print(l.cublaslt, l.cudnn ~= nil, l.nvrtc == f.runtime,
          l.why.cudnn or l.why.nvrtc)
        f = ridge.device.facts("sim:0")
        print(f.cudnn == l.cudnn, f.nvrtc == l.nvrtc)
        print(ridge.device.facts("cpu").driver, ridge.device.libraries("cpu", true).cublaslt)']])
    assert.equal('true\ttrue\t13.1.2\tnil\tnil\n13.1.2\ttrue\ttrue\tnil\ntrue\ttrue\n'
      .. 'nil\tnil\n', text)
    text = output('RIDGE_CUDNN=none RIDGE_NVRTC=none RIDGE_GPU=' .. SIMULATED
      .. ' ./ridge doctor --device cuda')
    assert.matches('\nruntime +CUDA %d+%.%d\n', text)
    assert.matches('\ncublasLt +%d+%.%d+%.%d+', text)
    assert.matches('\ncudnn +not used: RIDGE_CUDNN says none', text)
    assert.matches('\nnvrtc +not used: RIDGE_NVRTC says none', text)
    -- a plan of cuDNN that wants a compiler is tried
    local fails = '\ncudnn +9%.19%.0, but attention cannot be planned: plan: [^\n]*libnvrtc.so.13: '
    -- and one that would convert its inputs is none; tensor cores are what halves are for
    local none = '\ncudnn +9%.19%.0, but attention cannot be planned: the rules admit none of 4'
    local good = '\ncudnn +9%.19%.0\n'
    for found, words in pairs { [''] = good, ['RG_SIM_DNN_NVRTC=0'] = fails,
      ['RG_SIM_DNN_NOTE=1'] = none, ['RG_SIM_DNN_NOTE=0'] = good } do
      assert.matches(words, output(('RIDGE_CUDNN=simulated RIDGE_GPU=%s %s ./ridge doctor '
        .. '--device cuda'):format(SIMULATED, found)):gsub(', libcudnn.so.9', ''))
    end
    text = output('RG_SIM_BLAS_VERSION=130102 RIDGE_GPU=' .. SIMULATED
      .. ' ./ridge doctor --seconds 0.1 --device sim:0')
    assert.matches('\n +cublasLt 13%.1%.2, cuDNN not used: the simulated device', text)
    assert.matches('\n +NVRTC not used: the simulated device', text)
  end)

  it('that has no memory left is an error with its code', function()
    if not simulated() then return pending(WITHOUT) end
    local text = output(('RG_SIM_OOM_AFTER=2 RIDGE_GPU=%s ./ridge -e "local list = {} '
      .. 'local ok, e = pcall(function() '
      .. "for i = 1, 9 do list[i] = ridge.zeros(2 ^ 20 * i, { device = 'sim' }) end end) "
      .. 'return ok, e.code, #list, e.message"'):format(SIMULATED))
    assert.matches("^false\nENOMEM\n2\nmemory: the device has no 12 MB left", text)
  end)

  it('copies batches ahead of use, which whoever uses them does not see', function()
    if not simulated() then return pending(WITHOUT) end
    for _, order in ipairs { 'fwd', 'rev', 'rand:1', 'rand:2', 'rand:3' } do
      assert.equal('done\n', output(('RG_SIM_ORDER=%s RIDGE_GPU=%s ./ridge '
        .. 'tests/lua/data/ahead_child.lua'):format(order, SIMULATED)), order)
    end
  end)

  it('is looked for fast and without a word (F1, F202)', function()
    local fast = false
    for _ = 1, 10 do -- one of them is not interrupted by others
      local text = output [[RIDGE_GPU= ./ridge -e '
        local t = ridge.clock()
        local n = ridge.device.count()
        t = ridge.clock() - t
        local ok, why = ridge.device.available()
        print(n > 0 or t < 1e-3, ok or why, ridge.device.best(), #ridge.device.names() == n + 1,
          ridge.zeros(1, { device = "auto" }).device == ridge.device.best())']]
      assert.matches('^%a+\t[^\n]+\t[cpuda:0]+\ttrue\ttrue\n$', text)
      fast = fast or text:find '^true' ~= nil
    end
    assert.is_true(fast)
  end)

  it('of the CPU has a name, streams and events too', function()
    local device = ridge.device
    local facts = device.facts 'cpu'
    assert.equal('cpu', facts.kind)
    assert.is_nil(facts.capability)
    assert.equal(ridge.backend.machine().ram, facts.memory)
    assert.matches('^cpu: .+, %d+%.%d GB$', device.describe 'cpu')
    assert.equal(2, device.on_stream('cpu', 2, device.stream, 'cpu'))
    assert.equal(0, device.stream 'cpu')
    assert.matches('they go from 0 to 7', message(device.on_stream, 'cpu', -1, print))
    assert.matches('a function is expected', message(device.on_stream, 'cpu', 1, 3))
    local a, b = device.event 'cpu', device.event 'cpu'
    assert.matches('was not set', message(b.since, b, a))
    assert.is_true(a:set() == a and b:set():wait():follow():since(a) >= 0)
    assert.matches('an event is expected', message(b.since, b, 3))
    device.wait 'cpu'
    assert.matches('the name of a device', message(ridge.set_default_device, 3))
  end)

  it('of the CPU has a timeline by the clock', function()
    local t, y = ridge.timeline(function() return ridge.ones(10, 10):matmul(ridge.ones(10, 10)) end)
    assert.equal(10, y:get(1, 1))
    local names = {}
    for i, span in ipairs(t.spans) do
      names[i] = span.name
      assert.is_true(span.end_s >= span.begin_s)
      assert.equal('cpu', span.device)
    end
    assert.same({ 'fill', 'fill', 'matmul' }, names)
    assert.equal(1, #t:streams())
    assert.matches('cpu stream 0 .*#.*| busy', tostring(t))
    assert.matches('matmul', t:list())
    local none = ridge.timeline(function() end)
    assert.matches('no call was made', tostring(none))
    assert.matches('a function is expected', message(ridge.timeline, 3))
  end)

  it('that is not there has no pinned memory, and a sentence about it (F96)', function()
    if ridge.device.available() then return pending 'there is a GPU' end
    for _, f in ipairs { function() return ridge.zeros(2, { pinned = true }) end,
      function() return ridge.ones(2):pin() end, function() return ridge.memory.stats 'pinned' end,
      function() return ridge.ones(2):to('cpu', { pinned = true }) end } do
      assert.matches('pinned memory is for copies to a GPU, and there is none: there is no CUDA',
        message(f))
    end
    assert.is_false(ridge.zeros(2, { pinned = false }).is_pinned)
    assert.matches('there is no CUDA', message(ridge.set_default_backend, ridge.backend.cuda {}))
  end)
end)
