-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'
local backend = require 'ridge.backend'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

describe('the backend', function()
  local before

  before_each(function() before = backend.now() end)
  after_each(function()
    backend.set_affinity {}
    backend.set_threads(before.threads)
    backend.set_isa(before.isa)
    backend.set_gemm(before.gemm)
  end)

  it('says of what others obey that it is of no effect here', function()
    local pipe = assert(io.popen("MKL_NUM_THREADS=3 RIDGE_ISA=base ./ridge -e 'print(table.concat("
      .. 'require("ridge.variables").lines(), "\\n"))\' 2>&1'))
    local text = pipe:read '*a'
    pipe:close()
    assert.matches('RIDGE_ISA=base: instruction set', text, 1, true)
    assert.matches('MKL_NUM_THREADS=3: not read here; OMP_NUM_THREADS is', text, 1, true)
    assert.not_matches('RAYON', text)
  end)

  it('says in one line what the device is (F1)', function()
    local line = backend.describe()
    local gb = backend.machine().ram / 1024 ^ 3
    assert.is_truthy(line:find(backend.machine().cpu, 1, true))
    assert.is_truthy(line:find((' %.1f GB'):format(gb), 1, true), line)
  end)

  it('knows the instructions that the system says there are', function()
    local file = assert(io.open '/proc/cpuinfo')
    local flags = ' ' .. (file:read '*a':match '\nflags%s*:([^\n]*)' or '') .. ' '
    file:close()
    local isa = ' ' .. backend.machine().isa .. ' '
    for name, flag in pairs { avx512_bf16 = 'avx512_bf16', avx512 = 'avx512f', avx2 = 'avx2' } do
      assert.equal(flags:find(' ' .. flag .. ' ', 1, true) ~= nil,
        isa:find(' ' .. name .. ' ', 1, true) ~= nil, name)
    end
  end)

  it('takes threads, instruction set and path as options that are in force (F199, F201)',
    function()
      ridge.set_default_backend(backend.cpu { threads = 1, isa = 'base', gemm = 'onednn' })
      assert.same({ threads = 1, isa = 'base', gemm = 'onednn' }, backend.now())
      assert.matches("'threads'", failure(backend.cpu, { thread = 1 }).message)
      assert.matches('base', failure(backend.cpu, { isa = 'neon' }).message)
      assert.matches('backend.cpu', failure(ridge.set_default_backend, {}).message)
    end)

  it('takes a priority, which its children have too (F24)', function()
    local now = backend.priority()
    local lower = math.min(19, now + 1)
    backend.set_priority(lower)   -- it cannot be raised again without a privilege
    assert.equal(lower, backend.priority())
    local pipe = io.popen 'nice'
    assert.equal(lower, tonumber(pipe:read '*a'))
    pipe:close()
    assert.matches('-20 .. 19', failure(backend.set_priority, 20).message, 1, true)
    assert.matches('whole number', failure(backend.set_priority, 'low').message)
    if now >= 0 then pcall(backend.set_priority, now) end
  end)

  it('starts children on all processors, wherever its own threads are bound', function()
    local pipe = io.popen 'nproc'
    local n = tonumber(pipe:read '*a')
    pipe:close()
    backend.set_affinity { 0 }
    local child = require('ridge.process').spawn { module = 'tests.lua.nproc_child' }
    local text = child:receive()
    child:close()
    assert.equal(n, tonumber(text))
  end)

  it('computes the same by every path (F21)', function()
    local x, w = ridge.randn(33, 65), ridge.randn(65, 40)
    local expected = x:matmul(w)
    for _, path in ipairs { 'onednn', 'openblas', 'own' } do
      backend.set_gemm(path)
      assert.is_true(x:matmul(w):allclose(expected, 1e-4, 1e-4), path)
    end
  end)

  it('refuses what a library cannot count, which may divide by what is left of it', function()
    for path, words in pairs { onednn = 'oneDNN takes sizes up to 2147483647', auto = 'memory',
      openblas = 'OpenBLAS takes sizes up to 2147483647', own = 'memory' } do
      ridge.set_default_backend(backend.cpu { isa = 'base', gemm = path })
      for _, dtype in ipairs { 'f32', 'bf16' } do
        for _, size in ipairs { 2 ^ 31, 2 ^ 50 } do
          local x = ridge.full(2, 1):to(dtype):expand(size)
          ridge.memory.set_limit(2 ^ 28)
          local e = failure(x.matmul, x, x)
          ridge.memory.set_limit(0)
          assert.matches(words, e.message)
        end
      end
    end
    ridge.set_default_backend(backend.cpu {})
  end)

  it('computes the same by every instruction set the machine has (F20, F204)', function()
    local x, y = ridge.randn(1001), ridge.randn(1001)
    local sum = x + y
    for _, isa in ipairs { 'base', 'avx2', 'avx512', 'avx512_bf16', 'amx' } do
      if pcall(backend.set_isa, isa) then
        assert.equal(isa, backend.now().isa)
        assert.is_true((x + y):equal(sum), isa)
      end
    end
  end)

  it('multiplies rows to the same bits however far apart they lie', function()
    ridge.set_default_backend(backend.cpu { gemm = 'own' })
    for _, isa in ipairs { 'base', 'avx2', 'avx512', 'avx512_bf16', 'amx' } do
      if pcall(backend.set_isa, isa) then
        for _, dtype in ipairs { 'f32', 'bf16' } do
          local w = ridge.randn(2048, 40):to(dtype)
          for _, m in ipairs { 4, 5, 8, 14, 15, 23 } do
            local wide = ridge.randn(m, 2048 + 64):to(dtype) -- one way of L1 and a line apart
            local x = wide:narrow(2, 1, 2048)
            assert.is_true(x:clone():matmul(w):equal(x:matmul(w)), isa .. ' ' .. dtype .. ' ' .. m)
          end
        end
      end
    end
    ridge.set_default_backend(backend.cpu {})
  end)

  it('binds threads, and what is in force is recorded with a measurement (F199)', function()
    backend.set_affinity { 0 }
    local vars = require('ridge.sweep.lab').facts().env.vars
    assert.equal('0', vars.affinity)
    assert.equal(before.gemm, vars.gemm)
    assert.equal(before.threads, vars.threads)
    backend.set_affinity {}
    assert.is_nil(backend.now().affinity)
    assert.matches('no processor', failure(backend.set_affinity, { -1 }).message)
    assert.matches('number', failure(backend.set_affinity, { 'a' }).message)
  end)

  it("takes 'auto' for the best device there is, and says why another is not (F202)", function()
    local gpus = ridge.device.count()
    assert.equal(gpus > 0 and 'cuda:0' or 'cpu', ridge.zeros(2, { device = 'auto' }).device)
    if gpus == 0 then
      assert.matches('CUDA', failure(ridge.zeros, 2, { device = 'cuda' }).message)
    end
  end)

  it('says which environment variables it reads: those that the sources ask for (F203)', function()
    local pipe = io.popen [[grep -rhoE --include=*.c --include=*.h --include=*.cu --include=*.lua \
      "(getenv|\benv)[ (]+['\"][A-Z][A-Za-z0-9_]+['\"]" core gpu lua |
      grep -oE "[A-Z][A-Za-z0-9_]+"]]
    -- by OpenMP, and by a name
    local wanted = { OMP_NUM_THREADS = true, RIDGE_WORKER = true, RIDGE_LAUNCH_SECRET = true }
    for name in pipe:lines() do -- but for what the simulator of a GPU alone reads
      if not name:find '^RG_SIM_' then wanted[name] = true end
    end
    pipe:close()
    assert.is_true(wanted.RIDGE_ISA and wanted.RIDGE_DB and wanted.NO_COLOR)
    local found = {}
    for _, v in ipairs(backend.variables()) do
      assert.is_true(#v.does > 8, v.name)
      assert.are.equal(os.getenv(v.name), v.value)
      found[v.name] = true
    end
    assert.same(wanted, found)
    pipe = io.popen('OMP_NUM_THREADS=3 RAYON_NUM_THREADS=5 RIDGE_ISA=base ./ridge doctor '
      .. '--seconds 0.1')
    local text = pipe:read '*a'
    pipe:close()
    assert.matches('\nvariables +OMP_NUM_THREADS=3: compute threads', text)
    assert.matches('\n +RIDGE_ISA=base: instruction set', text)
    assert.matches('\n +RAYON_NUM_THREADS=5: not read here; OMP_NUM_THREADS is\n', text)
    assert.matches('\n +read where they are set: RIDGE_GEMM', text)
    assert.matches('kernels +baseline, 3 threads', text)
  end)

  it('takes the number of threads from the environment (F203)', function()
    local pipe = io.popen 'OMP_NUM_THREADS=3 ./ridge -e "return ridge.num_threads()"'
    local text = pipe:read '*a'
    pipe:close()
    assert.matches('3', text)
  end)
end)

describe('a batch of products that threads share', function()
  local threads = ridge.num_threads()
  after_each(function()
    ridge.backend.set_gemm 'auto'
    ridge.set_num_threads(threads)
  end)

  -- A primitive of oneDNN's is used by one thread at a time: with one for all, most of these go
  -- wrong on two processors.
  it('has the same results as one thread, by every path', function()
    for _, dtype in ipairs { 'bf16', 'f32' } do
      local a, b = ridge.randn(2, 3, 72, 24):to(dtype), ridge.randn(2, 3, 24, 72):to(dtype)
      for _, path in ipairs { 'onednn', 'openblas', 'own', 'auto' } do
        ridge.backend.set_gemm(path)
        ridge.set_num_threads(1)
        local wanted = a:matmul(b):to 'f64'
        ridge.set_num_threads(2)
        for _ = 1, 100 do
          local off = (a:matmul(b):to 'f64' - wanted):abs():max():item()
          assert.is_true(off == 0, ('%s %s: %g'):format(dtype, path, off))
        end
      end
    end
  end)
end)
