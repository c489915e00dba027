-- SPDX-License-Identifier: MIT
-- Run by device_spec with and without RIDGE_ALLOC_POISON: does memory that is handed out again
-- still hold what an earlier call wrote?  Arguments: devices.
local ridge = require 'ridge'

local N = 5000

-- What a result would hold if its operation wrote nothing: 'old', 'nan', or something else.
local function left(device)
  ridge.full(7, N, { device = device }):release()
  local x = ridge.empty(N, { device = device })
  local sum = x:to 'cpu':sum():item()
  return sum == 7 * N and 'old' or sum ~= sum and 'nan' or tostring(sum)
end

-- The same of an integer, of which 0xff is -1.
local function left_integer(device)
  ridge.full(7, N, { device = device, dtype = 'i64' }):release()
  local x = ridge.empty(N, { device = device, dtype = 'i64' })
  local sum = x:to 'cpu':sum():item()
  return sum == 7 * N and 'old' or sum == -N and 'nan' or tostring(sum)
end

-- The same where it is handed out to a plan that is captured.
local function left_in_plan(device)
  local y
  ridge.capture(function()
    ridge.full(7, N, { device = device }):release()
    y = ridge.empty(N, { device = device })
    return y
  end)
  local sum = y:to 'cpu':sum():item()
  return sum == 7 * N and 'old' or sum ~= sum and 'nan' or tostring(sum)
end

for i = 1, #arg do
  local device = arg[i]
  print(device, left(device), left_integer(device), left_in_plan(device))
end
