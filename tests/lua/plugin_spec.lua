-- SPDX-License-Identifier: MIT
-- What is said where the driver, the library of the GPU's kernels, or something that it needs is
-- missing or another: one sentence each time, never a crash. Drivers and libraries are made here.
-- RIDGE_TEST_PLUGIN names another plugin than that of `make gpu` (check-gpu).
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

local REAL = os.getenv 'RIDGE_TEST_PLUGIN' or 'build/libridge_gpu.so'
local SIMULATED = 'build/libridge_gpusim.so'
local STUB = '/usr/local/cuda/lib64/stubs/libcuda.so'
local ASK = "./ridge -e 'local C = require \"ridge.ffi.lib\" local t = C.rg_clock_ns() "
  .. "local s = C.rg_device_open(1) t = C.rg_clock_ns() - t "
  .. "print(s, require(\"ffi\").string(C.rg_error_message()), tonumber(t) / 1e6)'"

local function is_there(path)
  local file = path and io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

local function run(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "ended $?"'))
  local text = pipe:read '*a'
  pipe:close()
  assert.matches('ended 0\n$', text)
  return text
end

local folder

-- A library of this C text.
local function library(name, text, flags)
  local source = folder .. '/source.c'
  local file = assert(io.open(source, 'w'))
  file:write(text)
  file:close()
  run(('cc -shared -fPIC -o %s/%s %s %s'):format(folder, name, source, flags or ''))
  return folder .. '/' .. name
end

local DRIVER = [[
int cuInit(unsigned flags) { return %d; }
int cuDeviceGetCount(int *count) { *count = %d; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }]]

local function with_driver(rest) return ('LD_LIBRARY_PATH=%s %s'):format(folder, rest) end

describe('the plugin of the GPU', function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    run('mkdir ' .. folder)
  end)
  after_each(function() run('rm -r ' .. folder) end)

  it('is not looked for where there is no driver', function()
    if pcall(ffi.load, 'libcuda.so.1') then return pending 'there is a CUDA driver here' end
    local text = run('env -u RIDGE_GPU ' .. ASK)
    assert.matches('^%-6\tcuda:0: there is no CUDA driver here %(libcuda.so.1%)\t[%d.e-]+\n', text)
    io.write(('# finding no driver took %.3f ms\n'):format(text:match '\t([%d.e-]+)\n'))
  end)

  it("is not looked for where the driver is the toolkit's stub", function()
    if not is_there(STUB) then return pending 'there is no toolkit' end
    run(('ln -s %s %s/libcuda.so.1'):format(STUB, folder))
    assert.matches('finds no GPU %(code 34%)', run(with_driver('env -u RIDGE_GPU ' .. ASK)))
  end)

  it('is not looked for where the driver finds no GPU, or is no driver', function()
    library('libcuda.so.1', DRIVER:format(0, 0))
    assert.matches('the CUDA driver %(version 13.0%) finds no GPU %(code 0%)',
      run(with_driver('env -u RIDGE_GPU ' .. ASK)))
    library('libcuda.so.1', DRIVER:format(100, 1))
    assert.matches('finds no GPU %(code 100%)', run(with_driver('env -u RIDGE_GPU ' .. ASK)))
    library('libcuda.so.1', 'int nothing;')
    assert.matches('libcuda.so.1 is no CUDA driver: it lacks cuInit',
      run(with_driver('env -u RIDGE_GPU ' .. ASK)))
  end)

  it('is looked for beside the program, which runs without it', function()
    library('libcuda.so.1', DRIVER:format(0, 1))
    run(('cp build/ridge %s/ridge'):format(folder))
    local ask = ASK:gsub('^%./', folder .. '/')
    assert.matches("the GPU's kernels are not there: " .. folder:gsub('%p', '%%%0')
      .. '/libridge_gpu.so: cannot open shared object file',
      run(with_driver('env -u RIDGE_GPU ' .. ask)))
    assert.matches('3\n', run(folder .. "/ridge -e 'print(1 + 2)'"))
  end)

  it('that needs a library which is not here names it', function()
    library('libnot_here.so', 'int f(void) { return 0; }')
    local path = library('plugin.so', 'int f(void); int rg_gpu_plugin(void) { return f(); }',
      '-L' .. folder .. ' -lnot_here')
    os.remove(folder .. '/libnot_here.so')
    assert.matches("the GPU's kernels are not there: libnot_here.so: cannot open",
      run(('RIDGE_GPU=%s '):format(path) .. ASK))
  end)

  it('that is no library is refused', function()
    assert.matches("the GPU's kernels are not there: .*README.md: ", run('RIDGE_GPU=./README.md '
      .. ASK))
    assert.matches("the GPU's kernels are not there: ", run('RIDGE_GPU=/dev/null ' .. ASK))
    assert.matches("the GPU's kernels are not there: ", run('RIDGE_GPU=/tmp ' .. ASK))
  end)

  for _, path in ipairs { REAL, SIMULATED } do
    it(path .. ' refuses a ridge that it was not built for', function()
      if not is_there(path) then return pending 'it was not built' end
      -- the interface of gpu/plugin.h, with a sentence that takes no arguments
      pcall(ffi.cdef, [[
        typedef int plugin_fail(int code, const char *format);
        struct plugin_host { int32_t abi, core_abi, n_ops, pad; plugin_fail *fail;
          const void *modes; };
        struct plugin_offer { int32_t count, pad; const void *driver, *backend; };
        int rg_gpu_plugin(const struct plugin_host *host, struct plugin_offer *out);]])
      local said
      local fail = ffi.cast('plugin_fail *', function(code, format)
        said = ffi.string(format)
        return code
      end)
      local header = assert(io.open 'gpu/plugin.h'):read '*a'
      local right = { abi = tonumber(header:match 'RG_GPU_ABI = (%d+)'), core_abi = C.RG_ABI,
        n_ops = C.rg_op_count() }
      local entry = ffi.load('./' .. path).rg_gpu_plugin
      for name in pairs(right) do
        local host, offer = ffi.new('struct plugin_host', right), ffi.new 'struct plugin_offer'
        host[name], host.fail, said = host[name] + 1, fail, nil
        assert.equal(-6, entry(host, offer), name)
        assert.equal("the GPU's kernels were built for another ridge", said)
        assert.equal(0, offer.count)
      end
      fail:free()
    end)
  end

  it('is not opened to say that there is none, nor are the libraries that it uses', function()
    if pcall(ffi.load, 'libcuda.so.1') then return pending 'there is a CUDA driver here' end
    local least = math.huge
    for _ = 1, 10 do -- one of them is not interrupted by others
      local text = run [[env -u RIDGE_GPU ./ridge -e '
        local C, ffi = require "ridge.ffi.lib", require "ffi"
        local l, f = ffi.new "rg_device_libraries", ffi.new "rg_device_facts"
        local t = C.rg_clock_ns()
        print(C.rg_device_libraries_of(1, 1, l), C.rg_device_facts_of(1, f))
        print(tonumber(C.rg_clock_ns() - t) / 1e6)
        for line in io.lines "/proc/self/maps" do
          if line:find "cublas" or line:find "cudnn" or line:find "ridge_gpu" then print(line) end
        end']]
      assert.matches('^%-6\t%-6\n[%d.e-]+\nended 0\n$', text)
      least = math.min(least, tonumber(text:match '\n([%d.e-]+)\n'))
    end
    assert.is_true(least < 1)
  end)

  it(REAL .. ' says in a sentence that there is no GPU', function()
    if not is_there(REAL) then return pending 'it was not built' end
    if pcall(ffi.load, 'libcuda.so.1') then return pending 'there is a CUDA driver here' end
    assert.matches('^%-6\tcuda:0: .*cudaErrorInsufficientDriver', run('RIDGE_GPU=' .. REAL .. ' '
      .. ASK))
    if is_there(STUB) then
      run(('ln -s %s %s/libcuda.so.1'):format(STUB, folder))
      assert.matches('^%-6\tcuda:0: .*cudaErrorStubLibrary', run(with_driver('RIDGE_GPU=' .. REAL
        .. ' ' .. ASK)))
    end
    -- a driver that says there is a GPU, and has nothing else
    os.remove(folder .. '/libcuda.so.1')
    library('libcuda.so.1', DRIVER:format(0, 1))
    assert.matches('^%-6\tcuda:0: cuda: .*%(cudaError%w+%)', run(with_driver('RIDGE_GPU=' .. REAL
      .. ' ' .. ASK)))
  end)
end)
