//! The relay on real stores: passes, outages, and its life.

mod fixture;
mod outages;
mod passes;
mod running;
