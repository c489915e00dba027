-- SPDX-License-Identifier: MIT
--- Measuring: what a plan costs, how sure that is, and what was wrong with the machine meanwhile.

local ab = require 'ridge.measure.ab'
local block = require 'ridge.measure.block'
local calibrate = require 'ridge.measure.calibrate'
local doctor = require 'ridge.measure.doctor'
local external = require 'ridge.measure.external'
local fresh = require 'ridge.measure.fresh'
local flags = require 'ridge.measure.flags'
local protocol = require 'ridge.measure.protocol'

return {
  ab = ab.ab,
  block = block.block,
  point = block.point,
  protocol = protocol.protocol,
  calibrate = calibrate.calibrate,
  calibration = calibrate.calibration,
  doctor = doctor.look,
  external = external.external,
  fresh = fresh.point,
  flag = flags.describe,
  flags = flags.names,
  flags_from_bits = flags.from_bits,
}
