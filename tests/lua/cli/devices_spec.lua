-- SPDX-License-Identifier: MIT
-- ridge doctor --device cuda: with simulated GPUs, and where there is none.
local SIMULATED = 'build/libridge_gpusim.so'

local function run(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('ridge doctor --device cuda', function()
  it('lists the GPUs, the plugin and the libraries', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    local text = run(('RG_SIM_DEVICES=2 RIDGE_GPU=%s ./ridge doctor --device cuda'):format(
      SIMULATED))
    for i = 0, 1 do
      assert.matches(('\nsim:%d +simulated device %d, 8.0 GB, [78].%%d GB free, capability 9.0, '
        .. '4 units\n'):format(i, i), text)
    end
    assert.is_nil(text:find 'sim:2')
    assert.matches('\nplugin +/.*/build/libridge_gpusim.so\n', text)
    text = text:gsub('not found %((%S+)%)', '%1')
    for name, said in pairs { cublasLt = '13.1.0, ',
        nccl = "not used: the simulated device is none of NCCL's, ",
        cudnn = "not used: the simulated device is none of cuDNN's, ",
        nvrtc = 'not used: the simulated device has no machine code, ' } do
      assert.matches('\n' .. name .. ' +' .. said .. 'lib' .. name .. '.so.%d+\n', text)
    end
    assert.matches('status 0\n$', text)
    assert.matches("\nGPU +sim:0: simulated device 0, capability 9.0, 8.0 GB; simulated: its",
      run(("RIDGE_GPU=%s ./ridge doctor "
      .. '--seconds 0.1'):format(SIMULATED)))
  end)

  it('opens the NCCL that is named, and says its version', function()
    if not io.open(SIMULATED) then return pending 'no nvcc: the simulated GPU was not built' end
    if not pcall(require('ffi').load, 'libnccl.so.2') then return pending 'no libnccl.so.2' end
    local text = run(('RIDGE_NCCL=libnccl.so.2 RIDGE_GPU=%s ./ridge doctor --device cuda'):format(
      SIMULATED)) -- all functions that are wanted are in it
    assert.matches('\nnccl +2%.%d+%.%d+, libnccl.so.2\n', text)
  end)

  it('reads the version of the driver, whatever it is', function()
    local folder = require('tests.lua.store.folder').new()
    local file = assert(io.open(folder .. '/driver.c', 'w'))
    file:write 'int cuDriverGetVersion(int *v) { v[0] = VERSION; return CODE; }\n'
    file:close()
    for define, said in pairs { ['-DVERSION=12080 -DCODE=0'] = 'CUDA 12.8',
        ['-DVERSION=13020 -DCODE=0'] = 'CUDA 13.2',
        ['-DVERSION=0 -DCODE=35'] = 'does not answer' } do
      local library = folder .. '/libcuda.so.1'
      assert.equal(0, os.execute(('cc -shared -fPIC %s -o %s %s/driver.c'):format(define, library,
        folder)))
      assert.matches('\ndriver +' .. (said:gsub('%.', '%%.')) .. '\n', '\n' .. run(
        ('LD_LIBRARY_PATH=%s RIDGE_GPU=/no/such.so ./ridge doctor --device cuda'):format(folder)))
    end
    require('tests.lua.store.folder').remove(folder)
  end)

  it('says why there is none', function()
    local text = run 'RIDGE_GPU=/no/such.so ./ridge doctor --device cuda'
    assert.matches("\nGPU +none: the GPU's kernels are not there: /no/such.so: cannot open", text)
    assert.matches('\nplugin +not loaded\n', text)
    assert.matches('status 1\n$', text)
    text = run 'RIDGE_GPU=/no/such.so ./ridge doctor --seconds 0.1'
    assert.matches('\nGPU +none: the GPU', text)
    -- as much memory as Linux has, which keeps a little for itself
    local file = assert(io.open '/proc/meminfo')
    local kilobytes = tonumber(file:read('*a'):match 'MemTotal: +(%d+) kB')
    file:close()
    assert.near(kilobytes / 2 ^ 20, tonumber(text:match '\nmemory +([%d.]+) GB\n'), 0.1)
    assert.matches("nothing to say of device 'cu'; known: 'cuda', 'cuda:0' ...\n"
      .. 'try: ridge doctor %-%-help\nstatus 1\n$',
      run './ridge doctor --device cu')
  end)
end)
