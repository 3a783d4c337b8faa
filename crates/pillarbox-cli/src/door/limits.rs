//! The limits of connections: in total, and from one address.

use std::net::IpAddr;

use rustix::process::{Resource, getrlimit};

/// The divisor of the process's limit of open files. The rest is for the database and for receivers.
const SHARE: u64 = 8;
/// The smallest limit, so that a person and a probe can always connect.
const LEAST: usize = 8;
/// The divisor of the limit for one address.
const SHARE_OF_ADDRESS: usize = 4;

pub(super) struct Limits {
    pub(super) most: usize,
    pub(super) per_address: usize,
    /// Returns whether many users share this address.
    pub(super) is_shared: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl Limits {
    /// Returns limits with `most` in total, or fewer if the process may open few files.
    pub(super) fn of_process(most: usize) -> Self {
        Self::new(most, getrlimit(Resource::Nofile).current)
    }

    fn new(most: usize, files: Option<u64>) -> Self {
        let share = files.map_or(usize::MAX, |files| usize::try_from(files / SHARE).unwrap_or(usize::MAX));
        let most = most.min(share.max(LEAST));
        Self { most, per_address: (most / SHARE_OF_ADDRESS).max(1), is_shared: Box::new(|_| false) }
    }

    /// Returns the most connections of this address.
    pub(super) fn of(&self, address: IpAddr) -> usize {
        let address = address.to_canonical();
        if address.is_loopback() || (self.is_shared)(address) { self.most } else { self.per_address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_leave_few_connections() {
        let limits = |files| (Limits::new(512, files).most, Limits::new(512, files).per_address);
        assert_eq!(limits(None), (512, 128));
        assert_eq!(limits(Some(1 << 20)), (512, 128));
        assert_eq!(limits(Some(1024)), (128, 32));
        assert_eq!(limits(Some(64)), (8, 2));
        assert_eq!(limits(Some(3)), (8, 2));
    }

    #[test]
    fn a_proxy_and_this_machine_may_have_all_of_them() {
        let mut limits = Limits::new(512, None);
        limits.is_shared = Box::new(|address| address == IpAddr::from([10, 0, 0, 1]));
        for (address, most) in
            [("127.0.0.1", 512), ("::ffff:127.0.0.1", 512), ("::1", 512), ("10.0.0.1", 512), ("10.0.0.2", 128)]
        {
            assert_eq!(limits.of(address.parse().unwrap()), most, "{address}");
        }
    }
}
